#ifndef KVASIR_SERVER_MEMORY_LIMIT_H_
#define KVASIR_SERVER_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kvasir {

struct MemoryLimit {
  int64_t bytes = 0;
  std::string source;  // "cgroup" or "host", the metric label too
};

// The tightest limit on this process's memory: the host's memory, or that of
// its control group or any group above it (cgroup v2's memory.max, v1's
// memory.limit_in_bytes), whichever is least. What a group's "max" or v1's huge
// number say is no limit.
//
// `root` stands in front of /proc and /sys, for tests; empty is the real one.
// NOT_FOUND if not even the host's memory can be read.
absl::StatusOr<MemoryLimit> ReadMemoryLimit(const std::string& root);

}  // namespace kvasir

#endif  // KVASIR_SERVER_MEMORY_LIMIT_H_
