#include "server/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "server/memory_limit.h"

namespace kvasir {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) / 1e6;
}

std::string ReadText(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<double> ResidentBytes() {
  const std::vector<std::string> fields =
      absl::StrSplit(ReadText("/proc/self/statm"), ' ');
  double pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtod(fields[1], &pages)) {
    return std::nullopt;
  }
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::optional<double> OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  double count = -3;  // ".", ".." and the one that counts
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Boot time plus field 22 of stat, which counts clock ticks since then.
std::optional<double> StartTime() {
  const std::string stat = ReadText("/proc/self/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 2), ' ');
  double ticks = 0;
  if (fields.size() < 20 || !absl::SimpleAtod(fields[19], &ticks)) {
    return std::nullopt;
  }
  for (absl::string_view line : absl::StrSplit(ReadText("/proc/stat"), '\n')) {
    double boot = 0;
    if (absl::ConsumePrefix(&line, "btime ") && absl::SimpleAtod(line, &boot)) {
      return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  return std::nullopt;
}

}  // namespace

void AddProcessMetrics(MetricFamilies& families) {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    families.Counter("process_cpu_seconds_total",
                     "Processor time, user and system.",
                     Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  }
  if (const auto bytes = ResidentBytes()) {
    families.Gauge("process_resident_memory_bytes", "Memory in RAM.", *bytes);
  }
  if (const auto count = OpenDescriptors()) {
    families.Gauge("process_open_fds", "Open file descriptors.", *count);
  }
  static const std::optional<double> start = StartTime();
  if (start.has_value()) {
    families.Gauge("process_start_time_seconds",
                   "When the process started, since the epoch.", *start);
  }
}

void AddMemoryMetrics(const MemoryState& memory,
                      const MemoryWatch::Counts& resizes,
                      MetricFamilies& families) {
  families.OpenGauge("kvasir_memory_limit_bytes",
                     "Limits on memory: the host's, and the tightest of all "
                     "control groups that this process is in.");
  const MemoryLimit& host = memory.limits.front();
  families.Add({{"source", host.source}}, static_cast<double>(host.bytes));
  if (const MemoryLimit& tightest = memory.Tightest();
      tightest.source != host.source) {
    families.Add({{"source", tightest.source}},
                 static_cast<double>(tightest.bytes));
  }
  if (memory.pressure.has_value()) {
    families.Gauge("kvasir_memory_pressure_ratio",
                   "Share of the last ten seconds in which a task waited for "
                   "memory.",
                   memory.pressure->some);
  }
  families.OpenCounter("kvasir_cache_auto_resizes_total",
                       "Changes of the cache's size that no operator asked "
                       "for, by why.");
  for (const auto& [reason, cause] :
       {std::pair{"limit", ResizeCause::kLimit},
        std::pair{"pressure", ResizeCause::kPressure},
        std::pair{"room", ResizeCause::kRoom}}) {
    families.Add({{"reason", reason}},
                 static_cast<double>(resizes[static_cast<size_t>(cause)]));
  }
}

}  // namespace kvasir
