#include "engine/model/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace kvasir {
namespace {

// How many candidates a share orders at first; doubled until their mass is
// enough. Most distributions need no second round.
constexpr size_t kFirstOrdered = 256;

// Orders ids by falling logit, ties by rising id.
struct LikelierFirst {
  absl::Span<const float> logits;
  bool operator()(TokenId a, TokenId b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

// Moves what comes first in the order to [first, last), in order, if what is
// before `first` is in its place.
template <typename Before>
void OrderRange(std::vector<TokenId>& ids, size_t first, size_t last,
                const Before& before) {
  if (last < ids.size()) {
    std::nth_element(ids.begin() + first, ids.begin() + last, ids.end(),
                     before);
  }
  std::sort(ids.begin() + first, ids.begin() + last, before);
}

}  // namespace

Candidates::Candidates(absl::Span<const float> logits, float temperature,
                       std::vector<TokenId>& ids)
    : logits_(logits), temperature_(temperature), ids_(ids) {
  FindHighest();
}

void Candidates::FindHighest() {
  highest_ = logits_[ids_[0]];
  for (const TokenId id : ids_) highest_ = std::max(highest_, logits_[id]);
}

double Candidates::LogMass(TokenId id) const {
  return (static_cast<double>(logits_[id]) - highest_) / temperature_;
}

double Candidates::Mass(TokenId id) const { return std::exp(LogMass(id)); }

double Candidates::TotalMass() const {
  double total = 0;
  for (const TokenId id : ids_) total += Mass(id);
  return total;
}

void Candidates::KeepTopK(size_t k) {
  if (k >= ids_.size()) return;
  std::nth_element(ids_.begin(), ids_.begin() + k, ids_.end(),
                   LikelierFirst{logits_});
  ids_.resize(k);
}

// Keeps the fewest candidates, in the order of `before`, whose share of the
// mass is at least `share`.
template <typename Before>
void Candidates::KeepShare(double share, const Before& before) {
  const double total = TotalMass();
  double mass = 0;
  size_t ordered = 0;
  for (size_t kept = 0; kept < ids_.size();) {
    if (kept == ordered) {
      const size_t next =
          std::min(ids_.size(), std::max(kFirstOrdered, 2 * ordered));
      OrderRange(ids_, ordered, next, before);
      ordered = next;
    }
    mass += Mass(ids_[kept++]);
    if (mass >= share * total) ids_.resize(kept);
  }
}

void Candidates::KeepTypical(double share) {
  if (share >= 1) return;
  const double log_total = std::log(TotalMass());
  double entropy = 0;
  for (const TokenId id : ids_) {
    const double log_p = LogMass(id) - log_total;
    entropy -= std::exp(log_p) * log_p;
  }
  KeepShare(share, [&](TokenId a, TokenId b) {
    const double from_a = std::abs(LogMass(a) - log_total + entropy);
    const double from_b = std::abs(LogMass(b) - log_total + entropy);
    return from_a != from_b ? from_a < from_b : a < b;
  });
  FindHighest();
}

void Candidates::KeepTopP(double share) {
  if (share < 1) KeepShare(share, LikelierFirst{logits_});
}

void Candidates::KeepMinP(double ratio) {
  if (ratio <= 0) return;
  std::erase_if(ids_, [&](TokenId id) {
    // At a great temperature the mass of all is 1 as far as a double can tell.
    return logits_[id] != highest_ && (ratio >= 1 || Mass(id) < ratio);
  });
}

TokenId Candidates::At(double point) const {
  const double wanted = point * TotalMass();
  double below = 0;
  for (const TokenId id : ids_) {
    below += Mass(id);
    if (below > wanted) return id;
  }
  return ids_.back();
}

}  // namespace kvasir
