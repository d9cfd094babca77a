#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/config_option.h"
#include "server/config_values.h"
#include "server/tenant_limits.h"

namespace kvasir {
namespace {

// What one gRPC message may need in memory at the most.
constexpr int64_t kMaxMessageBytesLimit = int64_t{1} << 30;

absl::Status SetMaxMessage(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(
      target.config.max_message_bytes, ParseSize(text, [&target] {
        return target.sources.memory_limit(target.config.sizing.system_root);
      }));
  if (target.config.max_message_bytes >= 1024 &&
      target.config.max_message_bytes <= kMaxMessageBytesLimit) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted 1KiB to 1GiB, found ", QuoteText(text)));
}

absl::Status SetStreamQueue(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t value, ParseCount(text, 1, 1 << 20));
  target.config.stream_queue_limit = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status SetMaxStreams(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.max_streams, ParseCount(text, 1, 1 << 20));
  return absl::OkStatus();
}

absl::Status SetAdminListen(ConfigTarget target, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(target.config.admin_listen, ParseHostPort(text));
  return absl::OkStatus();
}

absl::Status SetTenantLimits(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.tenant_limits, ParseTenantLimits(text));
  return absl::OkStatus();
}

const ConfigOption kOptions[] = {
    {"server.listen", "--listen", "HOST:PORT", "127.0.0.1:8001",
     "Where gRPC listens; port 0 picks one", SetAddress<&ServerConfig::listen>},
    {"server.admin_listen", "--admin-listen", "HOST:PORT", "",
     "Where kvasir.v1.CacheAdmin listens, which --listen refuses then; empty: "
     "where all of gRPC does",
     SetAdminListen},
    {"metrics.listen", "--metrics-listen", "HOST:PORT", "127.0.0.1:8002",
     "Where /metrics, /livez, /readyz and /healthz listen",
     SetAddress<&ServerConfig::metrics_listen>},
    {"server.drain_delay", "--drain-delay", "TIME", "0",
     "How long after SIGTERM requests are still taken, while health says "
     "NOT_SERVING, so that balancers can look elsewhere first",
     SetTime<&ServerConfig::drain_delay>},
    {"server.drain_timeout", "--drain-timeout", "TIME", "30s",
     "How long running streams may go on after SIGTERM",
     SetTime<&ServerConfig::drain_timeout>},
    {"server.stall_timeout", "--stall-timeout", "TIME", "4s",
     "Not ready if work waits and the engine finishes no step for so long, or "
     "for four average steps if those are longer",
     SetTime<&ServerConfig::stall_timeout>},
    {"server.reload_timeout", "--reload-timeout", "TIME", "10s",
     "How long a reload waits for the engine to take new tenants' quotas; then "
     "nothing of it applies",
     SetTime<&ServerConfig::reload_timeout>},
    {"server.max_message", "--max-message", "SIZE", "64MiB",
     "Largest request message; larger ones are RESOURCE_EXHAUSTED",
     SetMaxMessage},
    {"server.max_streams", "--max-streams", "COUNT", "2048",
     "Generate calls at a time, of all clients; more are RESOURCE_EXHAUSTED",
     SetMaxStreams},
    {"server.stream_queue", "--stream-queue", "MESSAGES", "1024",
     "Messages that may wait for one client before its request is paused",
     SetStreamQueue},
    {"server.slow_reader_timeout", "--slow-reader-timeout", "TIME", "30s",
     "How long a paused request waits for its client to read one message, and "
     "for ten times as long in all; then its call ends with RESOURCE_EXHAUSTED",
     SetTime<&ServerConfig::slow_reader_timeout>},
    {"server.tenant_limits", "--tenant-limit", "NAME=requests:N,tokens:N/min",
     "",
     "Requests in flight, and tokens of prompts and outputs a minute, that a "
     "tenant may have; *: each that is not named; several with semicolons, or "
     "the flag again, or a list in the file",
     SetTenantLimits, kTenantLimitSeparator, /*names_tenants=*/true},
};

}  // namespace

absl::Span<const ConfigOption> ServerConfigOptions() { return kOptions; }

}  // namespace kvasir
