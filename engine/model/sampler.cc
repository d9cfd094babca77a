#include "engine/model/sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/model/candidates.h"
#include "engine/model/counter_random.h"
#include "engine/model/token_set.h"

namespace kvasir {
namespace {

// Which ids may be drawn. Withheld ones are few.
struct Mask {
  const TokenSet* drawable;  // null: all
  absl::Span<const TokenId> withheld;

  bool Lets(TokenId id) const {
    return (drawable == nullptr || drawable->Contains(id)) &&
           !absl::c_linear_search(withheld, id);
  }
};

// The mask is looked at only if the likeliest id is behind it.
TokenId Greedy(absl::Span<const float> logits, const Mask& mask) {
  const auto best = static_cast<TokenId>(
      std::max_element(logits.begin(), logits.end()) - logits.begin());
  if (mask.Lets(best)) return best;
  TokenId likeliest = -1;
  for (TokenId id = 0; id < static_cast<TokenId>(logits.size()); ++id) {
    if (likeliest >= 0 && logits[id] <= logits[likeliest]) continue;
    if (mask.Lets(id)) likeliest = id;
  }
  KV_CHECK(likeliest >= 0) << "no token to sample";
  return likeliest;
}

void ListDrawable(int32_t count, const Mask& mask, std::vector<TokenId>& ids) {
  ids.clear();
  if (mask.drawable != nullptr) {
    mask.drawable->AppendTo(count, ids);
  } else {
    ids.resize(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
  }
  for (const TokenId id : mask.withheld) {
    // The ids rise, and there are no others that this could take away.
    const auto place = std::lower_bound(ids.begin(), ids.end(), id);
    if (place != ids.end() && *place == id) ids.erase(place);
  }
  KV_CHECK(!ids.empty()) << "no token to sample";
}

}  // namespace

TokenId SampleToken(absl::Span<const float> logits,
                    const SamplingParams& params, const DrawContext& context,
                    int32_t sampleable_count, SamplerScratch& scratch) {
  const int32_t count =
      std::min(sampleable_count, static_cast<int32_t>(logits.size()));
  KV_CHECK(count > 0) << "no token to sample";
  const absl::Span<const float> adjusted =
      AdjustLogits(logits.first(static_cast<size_t>(count)), params, context,
                   scratch.adjust);
  const Mask mask = {params.drawable.get(), context.withheld};
  if (params.greedy()) return Greedy(adjusted, mask);
  ListDrawable(count, mask, scratch.ids);
  Candidates candidates(adjusted, params.temperature, scratch.ids);
  if (params.top_k > 0) candidates.KeepTopK(static_cast<size_t>(params.top_k));
  candidates.KeepTypical(params.typical_p);
  candidates.KeepTopP(params.top_p);
  candidates.KeepMinP(params.min_p);
  // The upper 53 bits, so that every value is exact in a double.
  const uint64_t seed = params.seed + static_cast<uint64_t>(context.stream);
  const uint64_t bits = CounterRandom(seed, context.tokens.size(), 0) >> 11;
  return candidates.At(static_cast<double>(bits) * 0x1.0p-53);
}

}  // namespace kvasir
