#include "cache/version_state.h"

namespace kvasir {

absl::string_view VersionStateName(VersionState state) {
  switch (state) {
    case VersionState::kWarming:
      return "warming";
    case VersionState::kServing:
      return "serving";
    case VersionState::kDraining:
      return "draining";
    case VersionState::kRetired:
      break;
  }
  return "retired";
}

}  // namespace kvasir
