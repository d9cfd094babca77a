#ifndef KVASIR_ENGINE_CANARY_H_
#define KVASIR_ENGINE_CANARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine_stats.h"
#include "engine/version_keeper.h"

namespace kvasir {

// Recomputes, while the engine has nothing else to do, a prefix that a request
// has found in the cache, and compares it with what is cached, bit for bit. A
// block that differs is condemned with all that is found through it: whatever
// has spoilt it, nobody is to read it again.
//
// Holds two leases while it works, and gives them up as soon as a request
// comes. Part of the engine loop; engine thread only.
class Canary {
 public:
  // Both outlive this object. At most `chunk` tokens are computed per Step().
  Canary(KvCache* cache, const VersionKeeper* versions, int64_t chunk);

  // Does a slice of the work, if there is any. False: nothing is to be done.
  bool Step();

  // Gives up what is under way; it is not taken up again.
  void GiveWay();

  bool active() const { return check_.has_value(); }
  const CanaryCounts& counts() const { return counts_; }

 private:
  struct Check {
    HitSample sample;
    Lease cached;    // what a request would read
    Lease computed;  // the same tokens, from nothing
  };

  bool Begin();
  bool FitsBeside(int64_t blocks) const;
  void Compute();
  void Judge();

  KvCache* const cache_;
  const VersionKeeper* const versions_;
  const int64_t chunk_;
  std::optional<Check> check_;
  CanaryCounts counts_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_CANARY_H_
