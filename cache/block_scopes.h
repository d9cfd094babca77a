#ifndef KVASIR_CACHE_BLOCK_SCOPES_H_
#define KVASIR_CACHE_BLOCK_SCOPES_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"

#include "cache/block_identity.h"

namespace kvasir {

// The scopes that leases and blocks refer to, each there once: so comparing two
// of them is comparing pointers, and a million blocks of a tenant share one.
//
// A scope goes with the last that refers to it; this object must outlive them
// all. Engine thread only.
class BlockScopes {
 public:
  BlockScopes() = default;
  BlockScopes(const BlockScopes&) = delete;
  BlockScopes& operator=(const BlockScopes&) = delete;

  // The one object with that content.
  std::shared_ptr<const BlockScope> Share(BlockScope scope);

  int64_t size() const { return static_cast<int64_t>(scopes_.size()); }

 private:
  struct Hash {
    size_t operator()(const BlockScope* scope) const;
  };
  struct Equal {
    bool operator()(const BlockScope* a, const BlockScope* b) const {
      return *a == *b;
    }
  };

  absl::flat_hash_map<const BlockScope*, std::weak_ptr<const BlockScope>, Hash,
                      Equal>
      scopes_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_SCOPES_H_
