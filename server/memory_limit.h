#ifndef KVASIR_SERVER_MEMORY_LIMIT_H_
#define KVASIR_SERVER_MEMORY_LIMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvasir {

// What the system says of memory: /proc and the control groups, v1 and v2. In
// all functions `root` stands in front of /proc and /sys, for tests; empty is
// the real one. Any thread.

// One limit on this process's memory.
struct MemoryLimit {
  int64_t bytes = 0;
  std::string source;  // "cgroup" or "host", the metric label too
  std::string file;    // that says so, without `root`
  // Of it by everyone whom it holds for, without page cache that the system can
  // drop; 0 if nobody counts.
  int64_t used_bytes = 0;
};

// How long tasks waited for memory in the last ten seconds (PSI's avg10), as
// shares in [0, 1].
struct MemoryPressure {
  double some = 0;   // at least one task
  double all = 0;    // all of them at a time ("full")
  std::string file;  // of the own control group, or of the host
};

struct MemoryState {
  std::vector<MemoryLimit> limits;  // the host's first; never empty
  std::optional<MemoryPressure> pressure;

  // The one with the fewest bytes.
  const MemoryLimit& Tightest() const;
};

// All limits that hold for this process: the host's memory, and of its control
// group and every group above it v2's memory.max and memory.high, v1's
// memory.limit_in_bytes and what memory.stat knows of groups that cannot be
// seen from here. A "max" and a number that is above the host's memory, which
// is how v1 says it, are no limit. NOT_FOUND if not even the host's memory can
// be read.
absl::StatusOr<MemoryState> ReadMemoryState(const std::string& root);

// Its tightest limit.
absl::StatusOr<MemoryLimit> ReadMemoryLimit(const std::string& root);

}  // namespace kvasir

#endif  // KVASIR_SERVER_MEMORY_LIMIT_H_
