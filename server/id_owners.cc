#include "server/id_owners.h"

#include "cache/base/status_macros.h"

namespace kvasir {

absl::Status IdOwners::Take(std::string_view id, const void* owner,
                            absl::FunctionRef<absl::Status()> submit) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(submit());
  owners_[std::string(id)] = owner;
  return absl::OkStatus();
}

void IdOwners::IfOwner(std::string_view id, const void* owner,
                       absl::FunctionRef<void()> cancel) {
  absl::MutexLock lock(&mu_);
  const auto it = owners_.find(std::string(id));
  if (it != owners_.end() && it->second == owner) cancel();
}

void IdOwners::Release(std::string_view id, const void* owner) {
  absl::MutexLock lock(&mu_);
  const auto it = owners_.find(std::string(id));
  if (it != owners_.end() && it->second == owner) owners_.erase(it);
}

}  // namespace kvasir
