#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "engine/backend/cpu/thread_pool.h"

namespace kvasir {
namespace {

// Where systems mount the v2 hierarchy; the second place is the hybrid mode's.
constexpr absl::string_view kUnifiedMounts[] = {"/sys/fs/cgroup",
                                                "/sys/fs/cgroup/unified"};
// Where they mount v1's cpu controller.
constexpr absl::string_view kV1CpuMounts[] = {"/sys/fs/cgroup/cpu",
                                              "/sys/fs/cgroup/cpu,cpuacct",
                                              "/sys/fs/cgroup/cpuacct,cpu"};

// CPUs that a group may use, as its two files or fields say it; nothing if it
// sets no limit.
std::optional<double> Quota(absl::string_view quota, absl::string_view period) {
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (!absl::SimpleAtoi(quota, &quota_us) ||  // "max" means no limit
      !absl::SimpleAtoi(period, &period_us) || quota_us <= 0 ||
      period_us <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<double> QuotaV2(const std::string& folder) {
  const std::vector<std::string> fields = absl::StrSplit(
      FirstLine(absl::StrCat(folder, "/cpu.max")), ' ', absl::SkipEmpty());
  if (fields.size() != 2) return std::nullopt;
  return Quota(fields[0], fields[1]);
}

std::optional<double> QuotaV1(const std::string& folder) {
  return Quota(FirstLine(absl::StrCat(folder, "/cpu.cfs_quota_us")),
               FirstLine(absl::StrCat(folder, "/cpu.cfs_period_us")));
}

// `group` and all its ancestors up to "", the mount itself. Inside a container
// the mount may already be the process's own group while the kernel names it
// by its place on the host, so that only the mount exists. A group outside the
// namespace's root ("/../x") cannot be reached by any path.
std::vector<std::string> WithAncestors(absl::string_view group) {
  std::vector<std::string> groups = {""};
  if (absl::StrContains(group, "..")) return groups;
  for (absl::string_view name : absl::StrSplit(group, '/', absl::SkipEmpty())) {
    groups.push_back(absl::StrCat(groups.back(), "/", name));
  }
  return groups;
}

// The smallest quota that binds this process, in CPUs.
std::optional<double> SmallestQuota(absl::string_view root) {
  std::optional<double> smallest;
  const auto note = [&smallest](std::optional<double> quota) {
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
  };
  // Lines of "hierarchy:controllers:group"; v2's is "0::group".
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    const bool v2 = fields[1].empty();
    const bool v1 = std::find(controllers.begin(), controllers.end(), "cpu") !=
                    controllers.end();
    if (!v1 && !v2) continue;
    for (const std::string& group : WithAncestors(fields[2])) {
      if (v2) {
        for (absl::string_view mount : kUnifiedMounts) {
          note(QuotaV2(absl::StrCat(root, mount, group)));
        }
      } else {
        for (absl::string_view mount : kV1CpuMounts) {
          note(QuotaV1(absl::StrCat(root, mount, group)));
        }
      }
    }
  }
  return smallest;
}

// CPUs of the affinity mask, or nothing if the system does not tell (its mask
// may be wider than the fixed-size set).
std::optional<int32_t> AffinityCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return std::nullopt;
  return CPU_COUNT(&set);
}

}  // namespace

int32_t UsableThreadCount(const char* root) {
  double threads = AffinityCount().value_or(1);
  // A part of a CPU is worth a thread: what the quota leaves of it is still
  // more than nothing.
  if (const std::optional<double> quota = SmallestQuota(root)) {
    threads = std::min(threads, std::ceil(*quota));
  }
  return std::max<int32_t>(1, static_cast<int32_t>(threads));
}

}  // namespace kvasir
