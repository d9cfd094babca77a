#include "engine/prefix_sharing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace kvasir {
namespace {

// True if `earlier` has yet to seal the block of tokens [begin, end) that
// `later` needs next, with the same identity.
bool WillCompute(const PrefillView& earlier, const PrefillView& later,
                 int64_t begin, int64_t end) {
  const bool related =
      earlier.request != nullptr && earlier.request == later.request;
  if (related || !earlier.cache->write || earlier.version != later.version ||
      earlier.cache->salt != later.cache->salt ||
      earlier.computed_tokens >= end ||
      static_cast<int64_t>(earlier.known_tokens.size()) < end) {
    return false;
  }
  // The block itself first: other prompts differ there, most often.
  const auto mine = later.known_tokens.begin();
  const auto theirs = earlier.known_tokens.begin();
  return std::equal(mine + begin, mine + end, theirs + begin) &&
         std::equal(mine, mine + begin, theirs);
}

}  // namespace

std::vector<bool> FindPrefixWaiters(absl::Span<const PrefillView> prefilling,
                                    int32_t block_tokens) {
  std::vector<bool> waits(prefilling.size(), false);
  for (size_t i = 1; i < prefilling.size(); ++i) {
    const PrefillView& later = prefilling[i];
    const int64_t begin = later.computed_tokens;
    const int64_t end = begin + block_tokens;
    // The last known token is always computed, so its block is never shared.
    if (!later.cache->read || begin % block_tokens != 0 ||
        end >= static_cast<int64_t>(later.known_tokens.size())) {
      continue;
    }
    for (size_t j = 0; j < i && !waits[i]; ++j) {
      waits[i] = WillCompute(prefilling[j], later, begin, end);
    }
  }
  return waits;
}

}  // namespace kvasir
