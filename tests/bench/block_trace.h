#ifndef KVASIR_TESTS_BENCH_BLOCK_TRACE_H_
#define KVASIR_TESTS_BENCH_BLOCK_TRACE_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvasir::bench {

// The prefix blocks of requests in the order of their arrival. An id names a
// block together with everything before it; `parent` of each id is the id
// before it, or -1.
struct BlockTrace {
  std::vector<std::vector<int32_t>> requests;  // ids, counted from 0
  std::vector<int32_t> parents;                // by id
  int64_t reference_count = 0;                 // ids in all requests
  int64_t longest = 0;                         // ids in a request
};

// Reads JSON lines with "hash_ids", a list of integers; other keys are left
// alone. INVALID_ARGUMENT with the line's number for anything else, for an id
// that has another one before it than last time, and for a trace without ids.
absl::StatusOr<BlockTrace> ReadBlockTrace(std::istream& lines);

// The same from a file; NOT_FOUND if it cannot be opened.
absl::StatusOr<BlockTrace> ReadBlockTraceFile(const std::string& path);

}  // namespace kvasir::bench

#endif  // KVASIR_TESTS_BENCH_BLOCK_TRACE_H_
