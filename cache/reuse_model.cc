#include "cache/reuse_model.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace kvasir {
namespace {

// Use counts up to this have a class each, larger ones one per doubling.
constexpr int kExactUses = 8;

// The first age of every age class and of the one behind the last.
template <size_t kCount>
constexpr std::array<double, kCount> MakeFirstAges() {
  std::array<double, kCount> ages{};
  double octave = 1;
  for (size_t age = 0; age < kCount; ++age) {
    ages[age] = age % 2 == 0 ? octave : octave * 1.5;
    if (age % 2 == 1) octave *= 2;
  }
  return ages;
}
constexpr auto kFirstAges = MakeFirstAges<ReuseModel::kAges + 1>();

// Waiting for a block over some ages, as expected when it begins.
struct Wait {
  double back = 0;  // chance that the block comes
  double time = 0;  // references until it does or the wait ends
  double left = 0;  // chance that it does not

  bool PaysMoreThan(const Wait& other) const {
    return back * other.time > other.back * time;
  }
  void GoOnWith(const Wait& next) {
    back += left * next.back;
    time += left * next.time;
    left *= next.left;
  }
};

}  // namespace

ReuseModel::ReuseModel() {
  for (Kind& kind : kinds_) {
    for (int age = 0; age < kAges; ++age) kind.worth[age] = 1 / kFirstAges[age];
  }
}

int ReuseModel::KindOf(int64_t use_count, bool last) {
  int64_t use_class = std::clamp<int64_t>(use_count, 1, kExactUses);
  if (use_count > kExactUses) {
    use_class += std::bit_width(static_cast<uint64_t>(use_count)) -
                 std::bit_width(static_cast<uint64_t>(kExactUses));
  }
  use_class = std::min<int64_t>(use_class, kUseClasses);
  return 2 * (static_cast<int>(use_class) - 1) + (last ? 1 : 0);
}

void ReuseModel::CountReuse(int kind, int64_t age) {
  ++kinds_[kind].reused[AgeClass(age)];
}

void ReuseModel::CountLoss(int kind, int64_t age) {
  ++kinds_[kind].lost[AgeClass(age)];
}

void ReuseModel::CountWaiting(int kind, int64_t age) {
  ++kinds_[kind].waiting[AgeClass(age)];
}

void ReuseModel::LearnNext(double waiting_scale, double price) {
  Kind& kind = kinds_[next_];
  EstimateChances(kind, next_ >= 2 ? &kinds_[next_ - 2] : nullptr,
                  waiting_scale);
  // The kind that the block has after one more use, and something after it.
  const Kind& heir = kinds_[std::min((next_ | 1) + 1, kKinds - 2)];
  EstimateWorth(kind, 1 + kForesight * heir.profit, price);
  next_ = (next_ + kKinds - 1) % kKinds;
}

void ReuseModel::Fade() {
  for (Kind& kind : kinds_) {
    for (int age = 0; age < kAges; ++age) {
      kind.reused[age] /= 2;
      kind.lost[age] /= 2;
    }
  }
}

double ReuseModel::Worth(int kind, int64_t age) const {
  return kinds_[kind].worth[AgeClass(age)];
}

int ReuseModel::AgeClass(int64_t age) {
  if (age < 2) return 0;
  const int octave = std::bit_width(static_cast<uint64_t>(age)) - 1;
  const int upper_half = static_cast<int>(age >> (octave - 1)) & 1;
  return std::min(2 * octave + upper_half, kAges - 1);
}

void ReuseModel::EstimateChances(Kind& kind, const Kind* like,
                                 double waiting_scale) {
  double at_risk = 0;
  for (int age = kAges - 1; age >= 0; --age) {
    // Those lost or waiting in an age class saw half of it on average.
    const double over = kind.lost[age] + kind.waiting[age] * waiting_scale;
    at_risk += kind.reused[age] + over;
    kind.at_risk[age] = at_risk - over / 2;
  }
  kind.waiting.fill(0);
  const double borrowed = like == nullptr ? 0 : kBorrowedLives;
  for (int age = 0; age < kAges; ++age) {
    const double chance = like == nullptr ? 0 : like->chance[age];
    kind.chance[age] = std::min((kind.reused[age] + borrowed * chance) /
                                    (kind.at_risk[age] + 1 + borrowed),
                                1.0);
  }
}

void ReuseModel::EstimateWorth(Kind& kind, double gain, double price) {
  // From the last age to the first: what follows is waited for, too, as long
  // as it yields more than what comes before it.
  std::array<Wait, kAges> waits;
  size_t count = 0;
  for (int age = kAges - 1; age >= 0; --age) {
    const double chance = kind.chance[age];
    const double patience = kFirstAges[age + 1] - kFirstAges[age];
    Wait wait = {chance, (1 - chance / 2) * patience, 1 - chance};
    while (count > 0 && waits[count - 1].PaysMoreThan(wait)) {
      wait.GoOnWith(waits[--count]);
    }
    waits[count++] = wait;
    kind.worth[age] = std::max(wait.back / wait.time * gain, kLeastWorth);
  }
  kind.profit = 0;
  Wait whole = {0, 0, 1};
  while (count > 0) {
    whole.GoOnWith(waits[--count]);
    kind.profit = std::max(kind.profit, gain * whole.back - price * whole.time);
  }
}

}  // namespace kvasir
