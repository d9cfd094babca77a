#ifndef KVASIR_CACHE_EVICTION_POLICY_H_
#define KVASIR_CACHE_EVICTION_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// What a policy may know of one cached block. Plain value.
struct EvictionCandidate {
  BlockId block;
  VersionId version;
  int64_t last_use = 0;  // tick of the last lease that held it; larger is later
  int64_t depth = 0;     // blocks before it in its prefix
  int64_t hit_count = 0;
};

// Decides which cached block goes first when room is needed. A pure function
// with a name: the same candidates always give the same order.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // True if `a` should be evicted before `b`. A strict weak order.
  virtual bool Before(const EvictionCandidate& a,
                      const EvictionCandidate& b) const = 0;
};

// Least recently used first; among equals the deepest first, so that a prefix
// is eaten from its end and what remains can still be found.
std::unique_ptr<EvictionPolicy> MakeLruPolicy();

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_POLICY_H_
