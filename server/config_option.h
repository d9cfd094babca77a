#ifndef KVASIR_SERVER_CONFIG_OPTION_H_
#define KVASIR_SERVER_CONFIG_OPTION_H_

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "server/config_values.h"
#include "server/server_config.h"

namespace kvasir {

// What an option's text is for.
struct ConfigTarget {
  ServerConfig& config;
  const ConfigSources& sources;
};

// Takes a text over into the configuration. Errors are INVALID_ARGUMENT with
// what was wanted and found, without the option's name.
using ConfigSetter = absl::Status (*)(ConfigTarget, const std::string&);

// One option of kvasird. The texts live forever.
struct ConfigOption {
  const char* key;  // `section.name`, see ParseConfig()
  const char* flag;
  const char* value_name;
  const char* default_text;  // empty: none, and `set` is not called for it
  const char* help;
  ConfigSetter set;
  // What stands between the values of an option that may have several, which
  // are then one text; 0 if it has one.
  char separator = '\0';
  // Each value is NAME=REST, and the name may be a tenant's salt.
  bool names_tenants = false;
};

// The options by what they are about, each in a file of its own
// (cache_options.cc); a new option is a row there.
absl::Span<const ConfigOption> ModelConfigOptions();
absl::Span<const ConfigOption> ServerConfigOptions();
absl::Span<const ConfigOption> SecurityConfigOptions();
absl::Span<const ConfigOption> CacheConfigOptions();
absl::Span<const ConfigOption> EngineConfigOptions();
absl::Span<const ConfigOption> LogConfigOptions();
absl::Span<const ConfigOption> HookConfigOptions();  // of tests

// All of them in the order of --help. Made once, any thread.
const std::vector<ConfigOption>& AllConfigOptions();

// Two options name the models, so these know each other.
inline constexpr char kModelPathKey[] = "model.path";
inline constexpr char kModelNameKey[] = "model.name";

// Setters that several options share, by the member they set.

template <auto Member>
absl::Status SetEngineText(ConfigTarget target, const std::string& text) {
  target.config.engine.*Member = text;
  return absl::OkStatus();
}

// A whole number from `kLowest` on; the engine knows the upper bounds.
template <auto Member, int64_t kLowest>
absl::Status SetEngineCount(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(
      const int64_t value,
      ParseCount(text, kLowest, std::numeric_limits<int32_t>::max()));
  auto& member = target.config.engine.*Member;
  member = static_cast<std::remove_reference_t<decltype(member)>>(value);
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetTime(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.*Member, ParseDuration(text));
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetAddress(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.*Member, ParseHostPort(text));
  return absl::OkStatus();
}

}  // namespace kvasir

#endif  // KVASIR_SERVER_CONFIG_OPTION_H_
