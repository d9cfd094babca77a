#include "server/id_owners.h"

#include "absl/strings/str_cat.h"

#include "server/text.h"

namespace kvasir {

absl::Status IdOwners::Take(std::string_view id, const void* owner) {
  absl::MutexLock lock(&mu_);
  if (owners_.emplace(id, owner).second) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("request id \"", View(id), "\" is in flight already"));
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
