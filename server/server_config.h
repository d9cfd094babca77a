#ifndef KVASIR_SERVER_SERVER_CONFIG_H_
#define KVASIR_SERVER_SERVER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "engine/engine.h"
#include "server/cache_sizing.h"
#include "server/config_values.h"
#include "server/log.h"
#include "server/secret_paths.h"
#include "server/tenant_limits.h"
#include "server/warm_file.h"

namespace kvasir {

// Everything kvasird can be told, checked. Plain value.
struct ServerConfig {
  EngineOptions engine;  // its functions are left empty
  CacheSizing sizing;    // where the engine is told no bytes or blocks

  HostPort listen;
  // CacheAdmin alone, which `listen` does not answer then.
  std::optional<HostPort> admin_listen;
  HostPort metrics_listen;
  SecretPaths secrets;
  bool tokens_without_tls = false;
  int64_t max_message_bytes = 0;
  int32_t stream_queue_limit = 0;  // messages that wait for one slow client
  absl::Duration slow_reader_timeout = absl::Seconds(30);
  int64_t max_streams = 2048;  // Generate calls at a time
  std::vector<TenantLimit> tenant_limits;
  absl::Duration drain_delay;  // NOT_SERVING, and yet serving
  absl::Duration drain_timeout;
  absl::Duration stall_timeout;
  absl::Duration reload_timeout = absl::Seconds(10);

  WarmFile warm;  // computed at start; no prompts: nothing is
  // How long that may keep the server from being ready.
  absl::Duration warm_deadline;

  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  double logged_prompt_ratio = 0;
};

// Where the configuration comes from; a test fills in its own.
struct ConfigSources {
  std::vector<std::string> arguments;  // without the program's name
  std::function<std::optional<std::string>(const std::string&)> environment;
  // Read if it exists and no other file is named.
  std::string default_file = "/etc/kvasir/kvasird.yaml";
  // The memory limit in bytes, by CacheSizing::system_root.
  std::function<absl::StatusOr<int64_t>(const std::string&)> memory_limit;
};

// Where a setting comes from; the later one wins.
enum class ConfigRank : uint8_t { kDefault, kFile, kEnvironment, kFlag };

// One setting as it was resolved, for --print-config.
struct ConfigValue {
  std::string key;     // in the file
  std::string value;   // as it was written
  std::string origin;  // "flag --x", "environment KVASIR_...", "file ..."
  ConfigRank rank = ConfigRank::kDefault;
};

struct ParsedConfig {
  enum class Action : uint8_t { kServe, kPrintConfig, kPrintText };
  Action action = Action::kServe;
  std::string text;  // kPrintText: what --help or --version show
  ServerConfig config;
  std::vector<ConfigValue> values;
};

// Flags over environment over file over defaults. The tables of config_option.h
// are the only place that knows their names: a key `section.name` is the file's
// `section: {name: ...}` and the environment's KVASIR_SECTION_NAME.
//
// INVALID_ARGUMENT names the option, where its value came from, what was wanted
// and what was found; unknown flags and keys of the file are errors. NOT_FOUND
// for a named file that cannot be read.
absl::StatusOr<ParsedConfig> ParseConfig(const ConfigSources& sources);

// The table that --print-config shows; tenants' names by "#" and HashSalt().
std::string FormatConfig(const std::vector<ConfigValue>& values);

}  // namespace kvasir

#endif  // KVASIR_SERVER_SERVER_CONFIG_H_
