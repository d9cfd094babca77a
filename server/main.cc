// kvasird: serves a language model over gRPC. See `kvasird --help`.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "cache/base/status_macros.h"
#include "server/daemon.h"
#include "server/memory_limit.h"
#include "server/server_config.h"

namespace {

// A configuration that cannot be used.
constexpr int kUsageExit = 2;

std::optional<std::string> Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

absl::StatusOr<int64_t> MemoryLimitBytes(const std::string& root) {
  ASSIGN_OR_RETURN(const kvasir::MemoryLimit limit,
                   kvasir::ReadMemoryLimit(root));
  return limit.bytes;
}

}  // namespace

int main(int argc, char** argv) {
  kvasir::ConfigSources sources;
  sources.arguments.assign(argv + 1, argv + argc);
  sources.environment = Environment;
  sources.memory_limit = MemoryLimitBytes;
  absl::StatusOr<kvasir::ParsedConfig> parsed = kvasir::ParseConfig(sources);
  if (!parsed.ok()) {
    std::fprintf(stderr, "kvasird: %s\n",
                 std::string(parsed.status().message()).c_str());
    return kUsageExit;
  }
  switch (parsed->action) {
    case kvasir::ParsedConfig::Action::kPrintText:
      std::fputs(parsed->text.c_str(), stdout);
      return 0;
    case kvasir::ParsedConfig::Action::kPrintConfig:
      std::fputs(kvasir::FormatConfig(parsed->values).c_str(), stdout);
      return 0;
    case kvasir::ParsedConfig::Action::kServe:
      break;
  }
  return kvasir::RunDaemon(sources, *std::move(parsed));
}
