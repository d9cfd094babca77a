#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "server/config_option.h"
#include "server/config_values.h"
#include "server/size_options.h"
#include "server/tenant_quota.h"
#include "server/warm_file.h"

namespace kvasir {
namespace {

absl::Status SetCacheSize(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(const SizeChoice choice, ParseCacheSize(text));
  target.config.engine.cache_bytes = choice.bytes;
  target.config.sizing.share = choice.share;
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetSizeBound(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.sizing.*Member, ParseSizeBound(text));
  return absl::OkStatus();
}

absl::Status SetAutoResize(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.sizing.auto_resize, ParseBool(text));
  return absl::OkStatus();
}

absl::Status SetPrefixCaching(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.prefix_caching, ParseBool(text));
  return absl::OkStatus();
}

absl::Status SetWarmFile(ConfigTarget target, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(target.config.warm, ReadWarmFile(text));
  return absl::OkStatus();
}

absl::Status SetTenantQuotas(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.tenant_quotas, ParseTenantQuotas(text));
  return absl::OkStatus();
}

const ConfigOption kOptions[] = {
    {"cache.size", "--cache-size", "SIZE", "auto",
     "KV cache: 512MiB, 8GiB, 60% of what the tightest memory limit leaves "
     "beside weights, other users and a reserve, or auto: 90% of it under a "
     "control group's limit, 50% under the host's",
     SetCacheSize},
    {"cache.blocks", "--cache-blocks", "BLOCKS", "0",
     "KV cache in blocks instead of bytes, if not 0",
     SetEngineCount<&EngineOptions::cache_blocks, 0>},
    {"cache.auto_resize", "--cache-auto-resize", "BOOL", "true",
     "Whether it shrinks when memory runs out or tasks wait for it, and grows "
     "again when there is room",
     SetAutoResize},
    {"cache.floor", "--cache-floor", "SIZE", "auto",
     "It does not shrink below this by itself; auto: an eighth of the size at "
     "start, or more for one request of the full context",
     SetSizeBound<&CacheSizing::floor_bytes>},
    {"cache.ceiling", "--cache-ceiling", "SIZE", "auto",
     "Nor grow beyond this; auto: the size given, or what the limit leaves; an "
     "operator's resize sets a new one",
     SetSizeBound<&CacheSizing::ceiling_bytes>},
    {"cache.block_tokens", "--block-tokens", "TOKENS", "16",
     "Token places per KV block",
     SetEngineCount<&EngineOptions::block_tokens, 1>},
    {"cache.kv_type", "--kv-type", "TYPE", "f16", "Keys and values: f16 or f32",
     SetEngineText<&EngineOptions::kv_type>},
    {"cache.prefix_caching", "--prefix-caching", "BOOL", "true",
     "Whether requests share the blocks of equal prefixes", SetPrefixCaching},
    {"cache.warm_file", "--warm-file", "FILE", "",
     "YAML file of prefixes that are computed at start, before the server is "
     "ready",
     SetWarmFile},
    {"cache.warm_deadline", "--warm-deadline", "TIME", "5m",
     "How long --warm-file may keep the server from being ready; it goes on "
     "after that",
     SetTime<&ServerConfig::warm_deadline>},
    {"cache.eviction_policy", "--eviction-policy", "NAME", "adaptive",
     "Which cached blocks go first where nothing else tells them apart: "
     "adaptive (learns what comes back) or lru",
     SetEngineText<&EngineOptions::eviction_policy>},
    {"cache.canary_hits", "--canary-hits", "COUNT", "1000",
     "One of so many requests that find something in the cache has it computed "
     "anew and compared when the engine is idle; 0: none",
     SetEngineCount<&EngineOptions::canary_hits, 0>},
    {"cache.tenant_quotas", "--tenant-quota", "SALT=FLOOR[:MAX]", "",
     "What of the cache requests with this salt may count on, and keep at most "
     "while they do not run: blocks, 512MiB, or 10% of it as it is at any "
     "time; several with commas, or the flag again, or a list in the file",
     SetTenantQuotas, kTenantSeparator, /*names_tenants=*/true},
};

}  // namespace

absl::Span<const ConfigOption> CacheConfigOptions() { return kOptions; }

}  // namespace kvasir
