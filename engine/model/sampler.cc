#include "engine/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/token_set.h"

namespace kvasir {
namespace {

// How many candidates top-p orders at first; doubled until their mass is
// enough. Most distributions need no second round.
constexpr size_t kFirstOrdered = 256;

absl::Status CheckRange(const char* field, float value, bool ok,
                        const char* range) {
  if (ok && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field,
                                                 ": wanted a finite number, ",
                                                 range, ", found ", value));
}

// Orders ids by falling logit, ties by rising id.
struct LikelierFirst {
  absl::Span<const float> logits;
  bool operator()(TokenId a, TokenId b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

// The bitmap is looked at only if the likeliest id is not drawable.
TokenId Greedy(absl::Span<const float> logits, const TokenSet* drawable) {
  const auto best = static_cast<TokenId>(
      std::max_element(logits.begin(), logits.end()) - logits.begin());
  if (drawable == nullptr || drawable->Contains(best)) return best;
  TokenId likeliest = -1;
  for (TokenId id = 0; id < static_cast<TokenId>(logits.size()); ++id) {
    if (!drawable->Contains(id)) continue;
    if (likeliest < 0 || logits[id] > logits[likeliest]) likeliest = id;
  }
  KV_CHECK(likeliest >= 0) << "no token to sample";
  return likeliest;
}

// Probability of `logit` relative to the likeliest token's, in (0, 1].
double RelativeMass(float logit, float highest, float temperature) {
  return std::exp((static_cast<double>(logit) - highest) / temperature);
}

// Candidates with their order known for the first `ordered` of them.
class Candidates {
 public:
  Candidates(absl::Span<const float> logits, const SamplingParams& params,
             std::vector<TokenId>& ids)
      : logits_(logits), temperature_(params.temperature), ids_(ids) {
    highest_ = logits[ids[0]];
    for (const TokenId id : ids) highest_ = std::max(highest_, logits[id]);
  }

  double Mass(size_t index) const {
    return RelativeMass(logits_[ids_[index]], highest_, temperature_);
  }

  void KeepTopK(size_t k) {
    if (k >= ids_.size()) return;
    std::nth_element(ids_.begin(), ids_.begin() + k, ids_.end(),
                     LikelierFirst{logits_});
    ids_.resize(k);
  }

  // Keeps the fewest likeliest candidates whose share of the mass is at least
  // `share`.
  void KeepTopP(double share) {
    if (share >= 1) return;
    double total = 0;
    for (size_t i = 0; i < ids_.size(); ++i) total += Mass(i);
    double mass = 0;
    size_t ordered = 0;
    for (size_t kept = 0; kept < ids_.size();) {
      if (kept == ordered) {
        const size_t next =
            std::min(ids_.size(), std::max(kFirstOrdered, 2 * ordered));
        OrderUpTo(ordered, next);
        ordered = next;
      }
      mass += Mass(kept++);
      if (mass >= share * total) ids_.resize(kept);
    }
  }

  // Keeps those at least `ratio` times as likely as the likeliest.
  void KeepMinP(double ratio) {
    if (ratio <= 0) return;
    std::erase_if(ids_, [&](TokenId id) {
      return RelativeMass(logits_[id], highest_, temperature_) < ratio;
    });
  }

  // The candidate at `point` in [0, 1) of the mass that is left.
  TokenId At(double point) const {
    double total = 0;
    for (size_t i = 0; i < ids_.size(); ++i) total += Mass(i);
    double below = 0;
    for (size_t i = 0; i < ids_.size(); ++i) {
      below += Mass(i);
      if (below > point * total) return ids_[i];
    }
    return ids_.back();
  }

 private:
  void OrderUpTo(size_t first, size_t last) {
    if (last < ids_.size()) {
      std::nth_element(ids_.begin() + first, ids_.begin() + last, ids_.end(),
                       LikelierFirst{logits_});
    }
    std::sort(ids_.begin() + first, ids_.begin() + last,
              LikelierFirst{logits_});
  }

  absl::Span<const float> logits_;
  float temperature_;
  float highest_ = 0;
  std::vector<TokenId>& ids_;
};

void ListDrawable(int32_t count, const TokenSet* drawable,
                  std::vector<TokenId>& ids) {
  ids.clear();
  if (drawable != nullptr) {
    drawable->AppendTo(count, ids);
    KV_CHECK(!ids.empty()) << "no token to sample";
    return;
  }
  ids.resize(count);
  std::iota(ids.begin(), ids.end(), 0);
}

// One round of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011, with the constants of table 2 and of section 3.2).
struct PhiloxState {
  uint32_t counter[4];
  uint32_t key[2];

  void Round() {
    constexpr uint64_t kMultiplier0 = 0xD2511F53;
    constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
    const uint64_t a = kMultiplier0 * counter[0];
    const uint64_t b = kMultiplier1 * counter[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
        static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
        static_cast<uint32_t>(a)};
    std::copy(next, next + 4, counter);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
};

}  // namespace

absl::Status CheckSamplingParams(const SamplingParams& params) {
  RETURN_IF_ERROR(CheckRange("temperature", params.temperature,
                             params.temperature >= 0, "0 or more"));
  RETURN_IF_ERROR(CheckRange("top_p", params.top_p,
                             params.top_p > 0 && params.top_p <= 1,
                             "above 0 and at most 1"));
  RETURN_IF_ERROR(CheckRange("min_p", params.min_p,
                             params.min_p >= 0 && params.min_p <= 1, "0 to 1"));
  return CheckRange("top_k", static_cast<float>(params.top_k),
                    params.top_k >= 0, "0 or more");
}

uint64_t CounterRandom(uint64_t seed, uint64_t position, uint64_t draw) {
  constexpr int kRounds = 10;
  PhiloxState state = {
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
       static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  for (int i = 0; i < kRounds; ++i) state.Round();
  return state.counter[0] | uint64_t{state.counter[1]} << 32;
}

TokenId SampleToken(absl::Span<const float> logits,
                    const SamplingParams& params, int64_t position,
                    int32_t sampleable_count, std::vector<TokenId>& scratch) {
  const int32_t count =
      std::min(sampleable_count, static_cast<int32_t>(logits.size()));
  KV_CHECK(count > 0) << "no token to sample";
  if (params.temperature == 0 || params.top_k == 1) {
    return Greedy(logits.first(count), params.drawable);
  }
  ListDrawable(count, params.drawable, scratch);
  Candidates candidates(logits.first(count), params, scratch);
  if (params.top_k > 0) candidates.KeepTopK(params.top_k);
  candidates.KeepTopP(params.top_p);
  candidates.KeepMinP(params.min_p);
  // The upper 53 bits, so that every value is exact in a double.
  const uint64_t bits =
      CounterRandom(params.seed, static_cast<uint64_t>(position), 0) >> 11;
  return candidates.At(static_cast<double>(bits) * 0x1.0p-53);
}

}  // namespace kvasir
