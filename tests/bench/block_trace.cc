#include "tests/bench/block_trace.h"

#include <algorithm>
#include <fstream>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "cache/base/status_macros.h"

namespace kvasir::bench {
namespace {

constexpr int32_t kNoParent = -1;

class Reader {
 public:
  // Empty if the line is one of a trace, or what is wrong with it.
  std::string Add(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return "wanted a JSON object";
    const auto ids = json.find("hash_ids");
    if (ids == json.end() || !ids->is_array()) {
      return "wanted a list under the key hash_ids";
    }
    std::vector<int32_t> request;
    int32_t parent = kNoParent;
    for (const nlohmann::json& id : *ids) {
      if (!id.is_number_integer()) return "wanted integers in hash_ids";
      const auto [known, added] = known_.try_emplace(
          id.get<int64_t>(), static_cast<int32_t>(known_.size()));
      if (added) trace.parents.push_back(parent);
      if (trace.parents[known->second] != parent) {
        return absl::StrCat("id ", known->first,
                            " has another id before it than last time");
      }
      parent = known->second;
      request.push_back(parent);
    }
    const int64_t length = static_cast<int64_t>(request.size());
    trace.reference_count += length;
    trace.longest = std::max(trace.longest, length);
    trace.requests.push_back(std::move(request));
    return "";
  }

  BlockTrace trace;

 private:
  absl::flat_hash_map<int64_t, int32_t> known_;
};

}  // namespace

absl::StatusOr<BlockTrace> ReadBlockTrace(std::istream& lines) {
  Reader reader;
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const std::string wrong = reader.Add(line);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", wrong));
    }
  }
  if (reader.trace.reference_count == 0) {
    return absl::InvalidArgumentError("no block in the whole trace");
  }
  return std::move(reader.trace);
}

absl::StatusOr<BlockTrace> ReadBlockTraceFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  return ReadBlockTrace(file);
}

}  // namespace kvasir::bench
