#ifndef KVASIR_SERVER_WARM_FILE_H_
#define KVASIR_SERVER_WARM_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kvasir/v1/cache_admin.pb.h"

namespace kvasir {

// Largest file of prefixes.
inline constexpr size_t kMaxWarmFileBytes = size_t{64} << 20;
// As many as a WarmCache call takes.
inline constexpr size_t kMaxWarmFilePrefixes = 4096;

// Prefixes as a file lists them, ready for a WarmCache call.
struct WarmFile {
  v1::WarmCacheRequest request;  // prompts alone
  std::vector<int> lines;        // of the prompts, from 1
};

// A YAML file of prefixes:
//
//   prefixes:
//     - text: You are a helpful assistant.
//       salt: tenant-a        # these are optional
//       priority: 80          # 0 to 100
//       ttl: 24h
//       pin: false
//     - chat:
//         - {role: system, content: You are a helpful assistant.}
//     - token_ids: [1, 2, 3]
//
// A chat ends behind its last message, so that it may go on in any way.
//
// NOT_FOUND if it cannot be read. INVALID_ARGUMENT with `path` and line for
// what is no YAML, no such list, an unknown or repeated key, or a value that is
// none; RESOURCE_EXHAUSTED above kMaxWarmFileBytes. Whether prompts fit the
// model only the model can tell.
absl::StatusOr<WarmFile> ReadWarmFile(const std::string& path);

// The same from text; `name` is what errors call it.
absl::StatusOr<WarmFile> ParseWarmFile(const std::string& name,
                                       const std::string& text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_WARM_FILE_H_
