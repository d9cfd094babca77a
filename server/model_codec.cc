#include "server/model_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/prefix_order.h"
#include "server/event_codec.h"
#include "server/page.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

v1::ModelState EncodeModelState(ServerPhase phase) {
  return phase == ServerPhase::kDraining ? v1::MODEL_STATE_DRAINING
                                         : v1::MODEL_STATE_READY;
}

v1::ServerState EncodeServerState(const ServerState& state) {
  switch (state.phase()) {
    case ServerPhase::kLoading:
      return v1::SERVER_STATE_LOADING;
    case ServerPhase::kDraining:
      return v1::SERVER_STATE_DRAINING;
    case ServerPhase::kServing:
      break;
  }
  return state.healthy() ? v1::SERVER_STATE_SERVING
                         : v1::SERVER_STATE_UNHEALTHY;
}

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The tier's number on the wire; the names are those of TierSnapshot.
v1::CacheTier EncodeTier(const std::string& tier) {
  if (tier == "device") return v1::CACHE_TIER_DEVICE;
  if (tier == "host") return v1::CACHE_TIER_HOST;
  if (tier == "disk") return v1::CACHE_TIER_DISK;
  if (tier == "remote") return v1::CACHE_TIER_REMOTE;
  return v1::CACHE_TIER_UNSPECIFIED;
}

void FillBytes(const ByteAccount& bytes, v1::ByteAccount& wire) {
  wire.set_free(bytes.free);
  wire.set_reserved(bytes.reserved);
  wire.set_tokens(bytes.tokens);
  wire.set_fragmentation(bytes.fragmentation);
  wire.set_leaving(bytes.leaving);
}

void FillEvicted(const EvictionCounts& evicted,
                 google::protobuf::Map<std::string, int64_t>& wire) {
  for (size_t i = 0; i < kEvictionCauseCount; ++i) {
    const auto cause = static_cast<EvictionCause>(i);
    if (evicted[cause] == 0) continue;
    wire[std::string(EvictionCauseName(cause))] = evicted[cause];
  }
}

void FillTier(const TierSnapshot& tier, v1::TierStats& wire) {
  const BlockCounts& blocks = tier.blocks;
  const ByteAccount& bytes = tier.bytes;
  wire.set_tier(EncodeTier(tier.tier));
  wire.set_capacity_bytes(tier.capacity_bytes);
  wire.set_used_bytes((blocks.reserved + blocks.pinned + blocks.cached) *
                      tier.block_bytes);
  wire.set_free_blocks(blocks.free);
  wire.set_reserved_blocks(blocks.reserved);
  wire.set_pinned_blocks(blocks.pinned);
  wire.set_cached_blocks(blocks.cached);
  wire.set_leaving_blocks(blocks.leaving);
  wire.set_usage_ratio(Ratio(blocks.reserved + blocks.pinned, blocks.total()));
  wire.set_fragmentation_ratio(
      Ratio(bytes.fragmentation, bytes.fragmentation + bytes.tokens));
  wire.set_block_bytes(tier.block_bytes);
  FillBytes(bytes, *wire.mutable_bytes());
  wire.set_external_fragmentation_bytes(tier.external_fragmentation_bytes);
  wire.set_token_ratio(tier.TokenShare());
}

void FillVersion(const VersionSnapshot& version, v1::VersionStats& wire) {
  wire.set_label(version.label);
  wire.set_fingerprint(version.fingerprint);
  wire.set_state(version.state);
  wire.set_lease_count(version.lease_count);
  wire.set_reserved_blocks(version.blocks.reserved);
  wire.set_pinned_blocks(version.blocks.pinned);
  wire.set_cached_blocks(version.blocks.cached);
  wire.set_hit_tokens(version.hit_tokens);
  wire.set_quota_blocks(version.quota_blocks);
  FillBytes(version.bytes, *wire.mutable_bytes());
  FillEvicted(version.evicted, *wire.mutable_evicted_blocks());
}

void FillTenant(const TenantSnapshot& tenant, v1::TenantStats& wire) {
  wire.set_salt_hash(HashSalt(tenant.salt));
  wire.set_floor_blocks(tenant.quota.floor_blocks);
  wire.set_max_blocks(tenant.quota.max_blocks);
  wire.set_findable_blocks(tenant.blocks);
  wire.set_cached_blocks(tenant.at_rest);
  FillEvicted(tenant.evicted, *wire.mutable_evicted_blocks());
}

void FillHot(const HotPrefixStat& hot, const EngineStats& stats,
             v1::Prefix& wire) {
  wire.set_prefix_id(hot.id);
  wire.set_salt_hash(hot.salt_hash);
  wire.set_token_count(hot.tokens);
  wire.set_hit_count(hot.hits);
  wire.set_block_count(hot.tokens / stats.cache.block_tokens);
  wire.set_byte_size(hot.tokens * stats.cache.token_bytes);
  for (const VersionSnapshot& version : stats.cache.versions) {
    if (version.id == hot.version) wire.set_version(version.label);
  }
}

}  // namespace

v1::KvDtype EncodeKvType(const std::string& kv_type) {
  if (kv_type == "f32") return v1::KV_DTYPE_F32;
  if (kv_type == "f16") return v1::KV_DTYPE_F16;
  return v1::KV_DTYPE_UNSPECIFIED;
}

v1::Model EncodeModel(const ServedVersion& version, ServerPhase phase) {
  const ModelInfo& info = version.info();
  v1::Model wire;
  wire.set_name(info.name);
  wire.set_architecture(info.architecture);
  wire.set_quantization(info.quantization);
  wire.set_digest(info.digest);
  wire.set_tokenizer_digest(info.tokenizer_digest);
  wire.set_max_context(Narrow(version.max_context()));
  wire.set_vocab_size(info.vocab_size);
  wire.set_layer_count(info.layer_count);
  wire.set_kv_head_count(info.kv_head_count);
  wire.set_head_dim(info.head_dim);
  wire.set_kv_bytes_per_token(info.kv_bytes_per_token);
  wire.add_groups()->set_layer_count(info.layer_count);
  for (const TokenId id : info.end_tokens) {
    wire.add_eos_token_ids(static_cast<uint32_t>(id));
  }
  wire.set_chat_template(info.chat_template);
  wire.add_capabilities("text");
  wire.add_capabilities("token_ids");
  if (info.chat_refusal.empty()) wire.add_capabilities("chat");
  wire.set_state(EncodeModelState(phase));
  const SamplingParams defaults;
  wire.mutable_default_sampling()->set_temperature(defaults.temperature);
  wire.mutable_default_sampling()->set_top_p(defaults.top_p);
  wire.mutable_default_sampling()->set_min_p(defaults.min_p);
  wire.mutable_default_sampling()->set_top_k(defaults.top_k);
  wire.set_weight_bytes(info.weight_bytes);
  wire.set_kv_dtype(EncodeKvType(info.kv_type));
  wire.set_backend(info.backend);
  wire.set_cache_version(info.cache_version);
  return wire;
}

absl::StatusOr<v1::ListModelsResponse> AnswerListModels(
    const v1::ListModelsRequest& wire, std::vector<v1::Model> models) {
  // Models come and do not go, so that their places in the list are ids.
  std::vector<int64_t> ids(models.size());
  std::iota(ids.begin(), ids.end(), 0);
  ASSIGN_OR_RETURN(const Page page,
                   FindPage(wire.page_size(), wire.page_token(), ids));
  v1::ListModelsResponse answer;
  for (size_t i = page.begin; i < page.end; ++i) {
    *answer.add_models() = std::move(models[i]);
  }
  answer.set_next_page_token(page.next_token);
  return answer;
}

v1::Load EncodeLoad(const ModelInfo& info, const EngineStats& stats) {
  v1::Load wire;
  wire.set_model(info.name);
  wire.set_running_count(Narrow(stats.requests_running));
  wire.set_waiting_count(Narrow(stats.requests_waiting));
  BlockCounts blocks;
  if (!stats.cache.tiers.empty()) blocks = stats.cache.tiers[0].blocks;
  const int64_t block_tokens = stats.cache.block_tokens;
  wire.set_used_kv_tokens((blocks.reserved + blocks.pinned + blocks.cached) *
                          block_tokens);
  wire.set_max_kv_tokens(blocks.total() * block_tokens);
  wire.set_kv_usage_ratio(
      Ratio(blocks.reserved + blocks.pinned, blocks.total()));
  wire.set_hit_ratio(Ratio(stats.cache.counters.hit_tokens,
                           stats.cache.counters.lookup_tokens));
  const double seconds =
      stats.step_decode_seconds.sum + stats.step_mixed_seconds.sum;
  if (seconds > 0) {
    wire.set_generation_tokens_per_second(
        static_cast<double>(stats.generation_tokens) / seconds);
  }
  return wire;
}

absl::StatusOr<v1::GetServerStatusResponse> AnswerServerStatus(
    const v1::GetServerStatusRequest& wire, const ServerState& state) {
  v1::GetServerStatusResponse answer;
  answer.set_state(EncodeServerState(state));
  answer.set_version(KVASIR_VERSION);
  *answer.mutable_start_time() = EncodeTime(state.start_time());
  if (const GenerationBackend* backend = state.backend(); backend != nullptr) {
    ASSIGN_OR_RETURN(const auto version,
                     ChooseVersion(*backend, wire.model(), ""));
    *answer.add_loads() = EncodeLoad(version->info(), backend->Stats());
  } else {
    answer.set_load_done_bytes(state.load_done_bytes());
    answer.set_load_total_bytes(state.load_total_bytes());
  }
  return answer;
}

v1::CacheStats EncodeCacheStats(
    const ModelInfo& info, const EngineStats& stats,
    const google::protobuf::RepeatedField<int>& tiers, absl::Time now) {
  const CacheSnapshot& cache = stats.cache;
  const CacheCounters& counters = cache.counters;
  v1::CacheStats wire;
  wire.set_model(info.name);
  wire.set_version(info.cache_version);
  for (const TierSnapshot& tier : cache.tiers) {
    const bool wanted =
        tiers.empty() || std::find(tiers.begin(), tiers.end(),
                                   EncodeTier(tier.tier)) != tiers.end();
    if (wanted) FillTier(tier, *wire.add_tiers());
  }
  wire.set_lookup_tokens(counters.lookup_tokens);
  wire.set_hit_tokens(counters.hit_tokens);
  wire.set_evicted_blocks(counters.evicted.total());
  wire.set_preemption_count(stats.preemptions);
  wire.set_recomputed_tokens(counters.recomputed_tokens);
  wire.set_running_count(Narrow(stats.requests_running));
  wire.set_waiting_count(Narrow(stats.requests_waiting));
  *wire.mutable_sample_time() = EncodeTime(now);
  wire.set_block_tokens(cache.block_tokens);
  wire.set_token_bytes(cache.token_bytes);
  wire.set_index_entries(cache.index_entries);
  wire.set_inserted_blocks(counters.inserted_blocks);
  wire.set_deduplicated_blocks(counters.deduplicated_blocks);
  wire.set_rejected_collisions(counters.rejected_collisions);
  wire.set_evicted_capacity_blocks(counters.evicted[EvictionCause::kCapacity]);
  wire.set_evicted_flush_blocks(counters.evicted[EvictionCause::kFlush]);
  wire.set_evicted_resize_blocks(counters.evicted[EvictionCause::kResize]);
  wire.set_evicted_version_blocks(counters.evicted[EvictionCause::kVersion]);
  wire.set_evicted_ttl_blocks(counters.evicted[EvictionCause::kTtl]);
  wire.set_evicted_quota_blocks(counters.evicted[EvictionCause::kQuota]);
  wire.set_evicted_prefix_blocks(counters.evicted[EvictionCause::kNamed]);
  wire.set_evicted_canary_blocks(counters.evicted[EvictionCause::kCanary]);
  wire.set_pinned_prefix_count(cache.pinned_prefixes);
  wire.set_pinned_prefix_blocks(cache.pinned_blocks);
  wire.set_floor_blocks(cache.kept_blocks - cache.pinned_blocks);
  for (const VersionSnapshot& version : cache.versions) {
    if (version.state == "retired") continue;
    FillVersion(version, *wire.add_versions());
  }
  for (const TenantSnapshot& tenant : cache.tenants) {
    FillTenant(tenant, *wire.add_tenants());
  }
  for (const HotPrefixStat& hot : stats.hot_prefixes) {
    FillHot(hot, stats, *wire.add_top_prefixes());
  }
  return wire;
}

}  // namespace kvasir
