#ifndef KVASIR_ENGINE_VERSION_INFO_H_
#define KVASIR_ENGINE_VERSION_INFO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/version_state.h"

namespace kvasir {

// Of all models together; each is a label of metrics.
inline constexpr size_t kMaxResidentVersions = 16;

// What anybody may know of one version that is resident. Plain value. What its
// blocks are and who holds it is in CacheSnapshot::versions, by `id`.
struct VersionInfo {
  VersionId id;
  std::string model;
  std::string label;
  std::string fingerprint;
  std::string weights_digest;
  std::string tokenizer_digest;
  std::string path;  // that the weights were read from
  // Of these in memory; versions with the same digest share them.
  int64_t weight_bytes = 0;
  VersionState state = VersionState::kWarming;
  bool active = false;    // what requests get that name no version
  bool retiring = false;  // deleted; here until the last request has ended
  int64_t quota_blocks = 0;
  absl::Time created;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERSION_INFO_H_
