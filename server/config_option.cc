#include "server/config_option.h"

#include <vector>

#include "absl/types/span.h"

namespace kvasir {
namespace {

std::vector<ConfigOption> Join() {
  std::vector<ConfigOption> all;
  for (const absl::Span<const ConfigOption> part :
       {ModelConfigOptions(), ServerConfigOptions(), SecurityConfigOptions(),
        CacheConfigOptions(), EngineConfigOptions(), LogConfigOptions(),
        HookConfigOptions()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

const std::vector<ConfigOption>& AllConfigOptions() {
  static const std::vector<ConfigOption>& all = *new std::vector(Join());
  return all;
}

}  // namespace kvasir
