#include "server/memory_limit.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

constexpr const char* kMount = "/sys/fs/cgroup";
// Where v2 is mounted beside v1; it has no limits there, but the pressure.
constexpr const char* kUnifiedMount = "/sys/fs/cgroup/unified";
constexpr const char* kMemInfo = "/proc/meminfo";
constexpr const char* kHostPressure = "/proc/pressure/memory";

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> text = ReadText(path);
  int64_t number = 0;
  // "max" is none.
  if (!text || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
  return number;
}

// The number behind `key` in lines of "key number" or "key: number kB".
std::optional<int64_t> NumberOf(absl::string_view key, absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    const bool kib = absl::ConsumeSuffix(&line, "kB");
    int64_t number = 0;
    if (!absl::SimpleAtoi(line, &number)) return std::nullopt;
    return kib ? number * 1024 : number;
  }
  return std::nullopt;
}

std::optional<MemoryLimit> HostLimit(const std::string& root) {
  const std::string text = ReadText(root + kMemInfo).value_or("");
  const std::optional<int64_t> total = NumberOf("MemTotal:", text);
  if (!total) return std::nullopt;
  const int64_t available = NumberOf("MemAvailable:", text).value_or(*total);
  return MemoryLimit{*total, "host", kMemInfo,
                     std::max<int64_t>(*total - available, 0)};
}

// How a version of control groups names what matters here. Each counts the
// groups below as well.
struct GroupFiles {
  const char* mount;
  std::vector<const char*> limits;
  const char* used;
  std::vector<const char*> reclaimable;  // lines of memory.stat
};

const GroupFiles kVersionOne = {"/sys/fs/cgroup/memory",
                                {"memory.limit_in_bytes"},
                                "memory.usage_in_bytes",
                                {"total_inactive_file ", "total_active_file "}};
const GroupFiles kVersionTwo = {
    kMount,
    {"memory.max", "memory.high"},
    "memory.current",
    {"inactive_file ", "active_file ", "slab_reclaimable "}};

// What one group says, with `folder` its path without the root.
void AddLimits(const std::string& root, const GroupFiles& files,
               const std::string& folder, std::vector<MemoryLimit>& limits) {
  const std::string stat =
      ReadText(absl::StrCat(root, folder, "/memory.stat")).value_or("");
  int64_t used =
      ReadNumber(absl::StrCat(root, folder, "/", files.used)).value_or(0);
  for (const char* line : files.reclaimable) {
    used -= NumberOf(line, stat).value_or(0);
  }
  const auto add = [&](const std::string& file, std::optional<int64_t> bytes) {
    // v1's "unlimited" is above every host's memory.
    if (!bytes || *bytes >= limits.front().bytes) return;
    limits.push_back({*bytes, "cgroup", absl::StrCat(folder, "/", file),
                      std::max<int64_t>(used, 0)});
  };
  for (const char* file : files.limits) {
    add(file, ReadNumber(absl::StrCat(root, folder, "/", file)));
  }
  add("memory.stat", NumberOf("hierarchical_memory_limit ", stat));
}

// The same of the group and of all above it, up to the mount.
void AddAllLimits(const std::string& root, const GroupFiles& files,
                  std::string group, std::vector<MemoryLimit>& limits) {
  while (true) {
    AddLimits(root, files, files.mount + group, limits);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

// The control groups of this process, as paths below their mounts.
struct Groups {
  std::optional<std::string> two;
  std::optional<std::string> one;  // of the memory controller
};

Groups ReadGroups(const std::string& root) {
  Groups groups;
  const std::string lines = ReadText(root + "/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    // hierarchy:controllers:path; v2 has hierarchy 0 and no controllers.
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      groups.two = group;
    } else if (absl::StrContains(absl::StrCat(",", parts[1], ","),
                                 ",memory,")) {
      groups.one = group;
    }
  }
  return groups;
}

// "some avg10=1.50 avg60=..." as 0.015.
std::optional<double> Average(absl::string_view kind, absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, kind) ||
        !absl::ConsumePrefix(&line, " avg10=")) {
      continue;
    }
    double percent = 0;
    if (!absl::SimpleAtod(line.substr(0, line.find(' ')), &percent)) break;
    return std::clamp(percent / 100, 0.0, 1.0);
  }
  return std::nullopt;
}

std::optional<MemoryPressure> ReadPressure(const std::string& root,
                                           const Groups& groups) {
  std::vector<std::string> files;
  if (groups.two) {
    for (const char* mount : {kMount, kUnifiedMount}) {
      files.push_back(absl::StrCat(mount, *groups.two, "/memory.pressure"));
    }
  }
  files.push_back(kHostPressure);
  for (const std::string& file : files) {
    const std::string text = ReadText(root + file).value_or("");
    const std::optional<double> some = Average("some", text);
    if (!some) continue;
    return MemoryPressure{*some, Average("full", text).value_or(0), file};
  }
  return std::nullopt;
}

}  // namespace

const MemoryLimit& MemoryState::Tightest() const {
  return *std::min_element(limits.begin(), limits.end(),
                           [](const MemoryLimit& a, const MemoryLimit& b) {
                             return a.bytes < b.bytes;
                           });
}

absl::StatusOr<MemoryState> ReadMemoryState(const std::string& root) {
  std::optional<MemoryLimit> host = HostLimit(root);
  if (!host) return absl::NotFoundError("cannot read MemTotal of the host");
  MemoryState state;
  state.limits.push_back(*std::move(host));
  const Groups groups = ReadGroups(root);
  if (groups.two) AddAllLimits(root, kVersionTwo, *groups.two, state.limits);
  if (groups.one) AddAllLimits(root, kVersionOne, *groups.one, state.limits);
  state.pressure = ReadPressure(root, groups);
  return state;
}

absl::StatusOr<MemoryLimit> ReadMemoryLimit(const std::string& root) {
  ASSIGN_OR_RETURN(const MemoryState state, ReadMemoryState(root));
  return state.Tightest();
}

}  // namespace kvasir
