#ifndef KVASIR_ENGINE_PREFIX_SHARING_H_
#define KVASIR_ENGINE_PREFIX_SHARING_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "engine/request.h"

namespace kvasir {

// What matters of a sequence that still prefills. Plain value; spans are the
// sequence's.
struct PrefillView {
  absl::Span<const TokenId> known_tokens;
  int64_t computed_tokens = 0;
  const CacheUse* cache = nullptr;
  VersionId version = {};
  // Whose sequence it is; null: nobody else's. Sequences of one request wait
  // for the first of them alone, which is not decided here.
  const void* request = nullptr;
};

// For each sequence, in order of arrival, whether it should wait for an earlier
// one that is going to compute the very block it would have to compute next: a
// step later it can have that block for nothing. So of many requests that
// arrive together with a shared prefix, only the first computes it.
//
// Pure. The first sequence never waits, and one that waits does so for an
// earlier one, which has its turn first anyway: nobody stands still.
std::vector<bool> FindPrefixWaiters(absl::Span<const PrefillView> prefilling,
                                    int32_t block_tokens);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_PREFIX_SHARING_H_
