#include "engine/model/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/model/token_set.h"

namespace kvasir {
namespace {

class Softmax {
 public:
  explicit Softmax(absl::Span<const float> logits) : logits_(logits) {
    highest_ = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float logit : logits) {
      total += std::exp(static_cast<double>(logit) - highest_);
    }
    log_total_ = std::log(total);
  }

  bool LikelierFirst(TokenId a, TokenId b) const {
    return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
  }

  // Two passes without a branch beat an order of the whole: few are asked for.
  int32_t Rank(TokenId id) const {
    const float logit = logits_[id];
    int32_t before = 0;
    for (const float other : logits_.first(id)) before += other >= logit;
    for (const float other : logits_.subspan(id)) before += other > logit;
    return before + 1;
  }

  float Logprob(TokenId id) const {
    constexpr double kLeast = std::numeric_limits<float>::lowest();
    const double exact = std::max(
        static_cast<double>(logits_[id]) - highest_ - log_total_, kLeast);
    const auto rounded = static_cast<float>(exact);
    if (rounded <= exact) return rounded;
    return std::nextafter(rounded, std::numeric_limits<float>::lowest());
  }

  TokenLogprob Of(TokenId id) const { return {id, Logprob(id), Rank(id)}; }

 private:
  const absl::Span<const float> logits_;
  double highest_ = 0;
  double log_total_ = 0;
};

// The likeliest `count` of the width that are tokens, in no order.
std::vector<TokenId> Likeliest(int32_t width, int32_t count,
                               const Softmax& softmax, const TokenSet* tokens) {
  const auto likelier = [&](TokenId a, TokenId b) {
    return softmax.LikelierFirst(a, b);
  };
  std::vector<TokenId> heap;  // the least likely of them on top
  for (TokenId id = 0; count > 0 && id < width; ++id) {
    const bool full = heap.size() == static_cast<size_t>(count);
    if (full && !likelier(id, heap.front())) continue;
    if (tokens != nullptr && !tokens->Contains(id)) continue;
    if (full) {
      std::pop_heap(heap.begin(), heap.end(), likelier);
      heap.pop_back();
    }
    heap.push_back(id);
    std::push_heap(heap.begin(), heap.end(), likelier);
  }
  return heap;
}

}  // namespace

PositionLogprobs ModelLogprobs(absl::Span<const float> logits, TokenId chosen,
                               const LogprobWish& wish,
                               const TokenSet* tokens) {
  const auto width = static_cast<int32_t>(logits.size());
  KV_CHECK(width > 0 && chosen < width) << chosen << " of " << width;
  const Softmax softmax(logits);
  PositionLogprobs position;
  if (chosen >= 0) position.chosen = softmax.Of(chosen);
  std::vector<TokenId> ids = Likeliest(width, wish.top_count, softmax, tokens);
  for (const TokenId id : wish.ids) {
    const bool listed =
        id >= 0 && id < width && (tokens == nullptr || tokens->Contains(id));
    if (listed) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end(),
            [&](TokenId a, TokenId b) { return softmax.LikelierFirst(a, b); });
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const TokenId id : ids) position.top.push_back(softmax.Of(id));
  return position;
}

}  // namespace kvasir
