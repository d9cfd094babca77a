#include "server/config_reload.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cache/base/check.h"
#include "server/config_option.h"

namespace kvasir {
namespace {

constexpr const char* kReloadable[] = {
    "log.format",
    "log.level",
    "tls.cert",
    "tls.key",
    "tls.client_ca",
    "auth.token_file",
    "cache.tenant_quotas",
    "server.tenant_limits",
    "cache.warm_file",
};

}  // namespace

bool ConfigChange::Takes(absl::string_view key) const {
  return std::find(taken.begin(), taken.end(), key) != taken.end();
}

bool IsReloadable(absl::string_view key) {
  return std::find(std::begin(kReloadable), std::end(kReloadable), key) !=
         std::end(kReloadable);
}

ConfigChange CompareConfig(const std::vector<ConfigValue>& in_force,
                           const std::vector<ConfigValue>& fresh) {
  const std::vector<ConfigOption>& options = AllConfigOptions();
  KV_CHECK(in_force.size() == options.size() && fresh.size() == options.size());
  ConfigChange change;
  for (size_t i = 0; i < options.size(); ++i) {
    if (in_force[i].value == fresh[i].value) continue;
    if (IsReloadable(options[i].key)) {
      change.taken.push_back(options[i].key);
    } else {
      change.needs_restart.push_back(options[i].flag);
    }
  }
  return change;
}

std::vector<ConfigValue> AfterReload(const std::vector<ConfigValue>& in_force,
                                     const std::vector<ConfigValue>& fresh) {
  std::vector<ConfigValue> after = in_force;
  for (size_t i = 0; i < after.size(); ++i) {
    if (IsReloadable(after[i].key)) after[i] = fresh[i];
  }
  return after;
}

}  // namespace kvasir
