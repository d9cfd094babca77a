#include "cache/block_scopes.h"

#include <utility>

#include "absl/hash/hash.h"

namespace kvasir {

std::shared_ptr<const BlockScope> BlockScopes::Share(BlockScope scope) {
  const auto known = scopes_.find(&scope);
  if (known != scopes_.end()) return known->second.lock();
  std::shared_ptr<const BlockScope> shared(new BlockScope(std::move(scope)),
                                           [this](const BlockScope* last) {
                                             scopes_.erase(last);
                                             delete last;
                                           });
  scopes_.emplace(shared.get(), shared);
  return shared;
}

size_t BlockScopes::Hash::operator()(const BlockScope* scope) const {
  return absl::HashOf(scope->fingerprint, scope->version, scope->salt);
}

}  // namespace kvasir
