#ifndef KVASIR_CACHE_VERSION_STATE_H_
#define KVASIR_CACHE_VERSION_STATE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace kvasir {

// In the order in which a version goes through them; VersionTable knows which
// ways back there are.
enum class VersionState : uint8_t { kWarming, kServing, kDraining, kRetired };

// As snapshots show it.
absl::string_view VersionStateName(VersionState state);

}  // namespace kvasir

#endif  // KVASIR_CACHE_VERSION_STATE_H_
