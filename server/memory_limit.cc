#include "server/memory_limit.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kvasir {
namespace {

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> HostBytes(const std::string& root) {
  const std::optional<std::string> text = ReadText(root + "/proc/meminfo");
  if (!text) return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::ConsumePrefix(&line, "MemTotal:")) continue;
    absl::ConsumeSuffix(&line, "kB");
    int64_t kib = 0;
    if (absl::SimpleAtoi(line, &kib)) return kib * 1024;
  }
  return std::nullopt;
}

// The limits in `file` of the group and of all above it, up to the mount.
void AddLimits(const std::string& mount, std::string group,
               const std::string& file, std::vector<int64_t>& limits) {
  while (true) {
    const std::optional<std::string> text =
        ReadText(absl::StrCat(mount, group, "/", file));
    int64_t bytes = 0;
    // "max" is no number, and v1's "unlimited" is above every host's memory.
    if (text && absl::SimpleAtoi(*text, &bytes)) limits.push_back(bytes);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

std::vector<int64_t> GroupLimits(const std::string& root) {
  std::vector<int64_t> limits;
  const std::string mount = root + "/sys/fs/cgroup";
  const std::string lines = ReadText(root + "/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    // hierarchy:controllers:path; v2 has hierarchy 0 and no controllers.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      AddLimits(mount, group, "memory.max", limits);
    } else if (absl::StrContains(absl::StrCat(",", parts[1], ","),
                                 ",memory,")) {
      AddLimits(mount + "/memory", group, "memory.limit_in_bytes", limits);
    }
  }
  return limits;
}

}  // namespace

absl::StatusOr<MemoryLimit> ReadMemoryLimit(const std::string& root) {
  const std::optional<int64_t> host = HostBytes(root);
  if (!host) return absl::NotFoundError("cannot read MemTotal of the host");
  MemoryLimit limit{*host, "host"};
  for (const int64_t bytes : GroupLimits(root)) {
    if (bytes < limit.bytes) limit = {bytes, "cgroup"};
  }
  return limit;
}

}  // namespace kvasir
