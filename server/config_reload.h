#ifndef KVASIR_SERVER_CONFIG_RELOAD_H_
#define KVASIR_SERVER_CONFIG_RELOAD_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/server_config.h"

namespace kvasir {

// What differs between the settings in force and those read again.
struct ConfigChange {
  std::vector<std::string> taken;  // keys that a running daemon takes over
  std::vector<std::string> needs_restart;  // flags of the others

  bool Takes(absl::string_view key) const;
};

// Whether a running daemon takes a setting over: levels and format of the log,
// tokens, certificates, tenants' quotas and limits, prefixes to be warmed. The
// rest is for the daemon's life.
bool IsReloadable(absl::string_view key);

// Both in the order of options, as ParseConfig() gives them. Where a value
// comes from makes no difference.
ConfigChange CompareConfig(const std::vector<ConfigValue>& in_force,
                           const std::vector<ConfigValue>& fresh);

// What is in force once `fresh` was taken over: values that need a restart
// stay.
std::vector<ConfigValue> AfterReload(const std::vector<ConfigValue>& in_force,
                                     const std::vector<ConfigValue>& fresh);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CONFIG_RELOAD_H_
