#include "server/engine_metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "server/version_codec.h"

namespace kvasir {
namespace {

double Number(int64_t count) { return static_cast<double>(count); }

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? Number(part) / Number(whole) : 0;
}

MetricLabels NameLabel(const std::string& model) {
  return {{"model_name", model}};
}

void AddInfo(const ServedModels& models, const EngineStats& stats,
             MetricFamilies& out) {
  out.OpenGauge("kvasir_model_info",
                "The active version of a model; always 1.");
  for (const ModelInfo& info : models.active) {
    out.SetCommonLabels(NameLabel(info.name));
    out.Add({{"architecture", info.architecture},
             {"quantization", info.quantization},
             {"digest", info.digest}},
            1);
  }
  int64_t device_blocks = 0;
  for (const TierSnapshot& tier : stats.cache.tiers) {
    if (tier.tier == "device") device_blocks = tier.blocks.total();
  }
  out.OpenGauge("kvasir_cache_config_info",
                "How the KV cache is set up; always 1. num_gpu_blocks counts "
                "the blocks of the tier that kernels read.");
  for (const ModelInfo& info : models.active) {
    out.SetCommonLabels(NameLabel(info.name));
    out.Add({{"block_size", absl::StrCat(stats.cache.block_tokens)},
             {"num_gpu_blocks", absl::StrCat(device_blocks)},
             {"num_cpu_blocks", "0"},
             {"kv_dtype", info.kv_type},
             {"policy", stats.eviction_policy},
             {"version", info.cache_version}},
            1);
  }
}

// The metric's word: what is deleted waits for its last request.
std::string StateOf(const VersionInfo& version) {
  return version.retiring ? "retiring"
                          : std::string(VersionStateName(version.state));
}

// Labels are those of resident versions, kMaxResidentVersions at the most.
void AddVersions(const ServedModels& models, const EngineStats& stats,
                 MetricFamilies& out) {
  out.OpenGauge("kvasir_cache_versions", "Resident cache versions by state.");
  for (const ModelInfo& info : models.active) {
    out.SetCommonLabels(NameLabel(info.name));
    for (const char* state : {"warming", "serving", "draining", "retiring"}) {
      const auto count = std::count_if(
          models.versions.begin(), models.versions.end(),
          [&](const VersionInfo& version) {
            return version.model == info.name && StateOf(version) == state;
          });
      out.Add({{"state", state}}, Number(count));
    }
  }
  const auto each = [&](const auto& add) {
    for (const VersionInfo& info : models.versions) {
      out.SetCommonLabels(NameLabel(info.model));
      const VersionSnapshot* known = FindVersion(stats.cache, info.id);
      add(info, known == nullptr ? VersionSnapshot() : *known);
    }
  };
  out.OpenGauge("kvasir_cache_version_active",
                "Whether requests get this version that name none, 0 or 1.");
  each([&](const VersionInfo& info, const VersionSnapshot&) {
    out.Add({{"version", info.label}}, info.active ? 1 : 0);
  });
  out.OpenGauge("kvasir_cache_version_leases", "Requests in this version.");
  each([&](const VersionInfo& info, const VersionSnapshot& known) {
    out.Add({{"version", info.label}}, Number(known.lease_count));
  });
  out.OpenGauge("kvasir_cache_version_blocks",
                "Blocks of this version by state.");
  each([&](const VersionInfo& info, const VersionSnapshot& known) {
    out.Add({{"version", info.label}, {"state", "reserved"}},
            Number(known.blocks.reserved));
    out.Add({{"version", info.label}, {"state", "pinned"}},
            Number(known.blocks.pinned));
    out.Add({{"version", info.label}, {"state", "cached"}},
            Number(known.blocks.cached));
  });
  out.OpenGauge("kvasir_cache_version_bytes",
                "Where this version's bytes are; those of all versions and the "
                "tier's free and leaving ones sum up to its capacity.");
  each([&](const VersionInfo& info, const VersionSnapshot& known) {
    out.Add({{"version", info.label}, {"kind", "reserved"}},
            Number(known.bytes.reserved));
    out.Add({{"version", info.label}, {"kind", "tokens"}},
            Number(known.bytes.tokens));
    out.Add({{"version", info.label}, {"kind", "fragmentation"}},
            Number(known.bytes.fragmentation));
  });
  out.OpenCounter("kvasir_cache_version_hit_tokens_total",
                  "Prompt tokens found in this version.");
  each([&](const VersionInfo& info, const VersionSnapshot& known) {
    out.Add({{"version", info.label}}, Number(known.hit_tokens));
  });
}

void AddRequests(const EngineStats& stats, MetricFamilies& out) {
  out.OpenCounter("kvasir_requests_finished_total",
                  "Requests that ended by themselves, by reason.");
  const std::array<const char*, kFinishReasonCount> kReasons = {
      "eos",          "stop_token",  "length",
      "context_full", "stop_string", "time_limit"};
  for (size_t i = 0; i < stats.finished.size(); ++i) {
    out.Add({{"finish_reason", kReasons[i]}}, Number(stats.finished[i]));
  }
  out.Gauge("kvasir_requests_running", "Requests that hold KV memory.",
            Number(stats.requests_running));
  out.Gauge("kvasir_requests_waiting", "Requests that wait for their turn.",
            Number(stats.requests_waiting));
  out.Gauge("kvasir_requests_paused",
            "Of the running ones, those that wait for their client to read.",
            Number(stats.requests_paused));
  out.OpenCounter("kvasir_requests_rejected_total",
                  "Requests that were refused, by reason.");
  out.Add({{"reason", "queue_full"}}, Number(stats.rejected_inbox_full));
  out.Add({{"reason", "never_fits"}}, Number(stats.rejected_never_fits));
  out.Add({{"reason", "draining"}}, Number(stats.rejected_draining));
  out.Add({{"reason", "invalid"}}, Number(stats.rejected_invalid));
  out.OpenCounter("kvasir_requests_cancelled_total",
                  "Requests that were ended before their end, by whom.");
  out.Add({{"source", "client"}}, Number(stats.cancelled_by_client));
  out.Add({{"source", "deadline"}}, Number(stats.cancelled_by_deadline));
  out.Add({{"source", "admin"}}, Number(stats.cancelled_by_admin));
  out.Add({{"source", "drain"}}, Number(stats.cancelled_by_drain));
  out.Counter("kvasir_requests_failed_total",
              "Requests that a failed step or a lack of memory ended.",
              Number(stats.failed));
  out.OpenCounter("kvasir_requests_preempted_total",
                  "Times that a running request lost its KV memory, by how it "
                  "gets it back.");
  out.Add({{"mode", "recompute"}}, Number(stats.preemptions));
}

void AddTokens(const EngineStats& stats, MetricFamilies& out) {
  out.OpenCounter("kvasir_prompt_tokens_total",
                  "Prompt tokens by where their keys and values came from.");
  out.Add({{"source", "computed"}}, Number(stats.prompt_tokens_computed));
  out.Add({{"source", "device"}}, Number(stats.prompt_tokens_cached));
  out.Counter("kvasir_generation_tokens_total", "Tokens generated.",
              Number(stats.generation_tokens));
  out.Counter("kvasir_warmed_tokens_total",
              "Tokens computed before anybody asked for them.",
              Number(stats.warmed_tokens));
  out.OpenCounter("kvasir_recomputed_tokens_total",
                  "Tokens computed again, by why.");
  out.Add({{"reason", "preemption"}}, Number(stats.recomputed_tokens));
  out.Add({{"reason", "sequence"}}, Number(stats.repeated_tokens));
}

void AddLatencies(const EngineStats& stats, MetricFamilies& out) {
  out.OpenHistogram("kvasir_time_to_first_token_seconds",
                    "From submission to the first token, by whether any of the "
                    "prompt was cached.");
  out.Add({{"cache", "hit"}}, stats.ttft_hit);
  out.Add({{"cache", "miss"}}, stats.ttft_miss);
  out.Histograms("kvasir_inter_token_latency_seconds",
                 "Each gap between two tokens of a request.",
                 stats.inter_token);
  out.Histograms("kvasir_time_per_output_token_seconds",
                 "Mean gap between the tokens of a request.",
                 stats.time_per_output_token);
  out.Histograms("kvasir_request_duration_seconds",
                 "From submission to the end.", stats.request_duration);
  out.Histograms("kvasir_request_queue_seconds",
                 "From submission to the first step.", stats.queue_time);
  out.Histograms("kvasir_request_prefill_seconds",
                 "From the first step to the first token.", stats.prefill_time);
  out.Histograms("kvasir_request_decode_seconds",
                 "From the first token to the last.", stats.decode_time);
  out.Histograms("kvasir_request_prompt_tokens", "Tokens per prompt.",
                 stats.prompt_tokens);
  out.Histograms("kvasir_request_generation_tokens", "Tokens per output.",
                 stats.completion_tokens);
}

void AddSteps(const EngineStats& stats, absl::Duration now, absl::Time wall,
              MetricFamilies& out) {
  out.OpenHistogram("kvasir_step_duration_seconds",
                    "Time of one engine step, by what it computed.");
  out.Add({{"phase", "prefill"}}, stats.step_prefill_seconds);
  out.Add({{"phase", "decode"}}, stats.step_decode_seconds);
  out.Add({{"phase", "mixed"}}, stats.step_mixed_seconds);
  out.Histograms("kvasir_step_tokens", "Tokens computed per step.",
                 stats.step_tokens);
  out.Histograms("kvasir_step_sequences", "Requests per step.",
                 stats.step_sequences);
  const absl::Time last = wall - (now - stats.last_step);
  out.Gauge(
      "kvasir_last_step_timestamp_seconds",
      "When the engine last finished a step; 0 if it never did.",
      stats.steps > 0 ? absl::ToDoubleSeconds(last - absl::UnixEpoch()) : 0);
  out.Gauge("kvasir_engine_seconds_since_last_step",
            "How long ago that was; 0 if it never did. Grows while the engine "
            "is idle, too: see kvasir_serving for whether it is stuck.",
            stats.steps > 0 ? absl::ToDoubleSeconds(now - stats.last_step) : 0);
}

void AddTierBytes(const EngineStats& stats, MetricFamilies& out) {
  out.OpenGauge("kvasir_kv_cache_capacity_bytes", "Size of a tier.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    out.Add({{"tier", tier.tier}}, Number(tier.capacity_bytes));
  }
  out.OpenGauge("kvasir_kv_cache_used_bytes",
                "Bytes of blocks that hold something.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    const BlockCounts& blocks = tier.blocks;
    out.Add({{"tier", tier.tier}},
            Number((blocks.reserved + blocks.pinned + blocks.cached) *
                   tier.block_bytes));
  }
  out.OpenGauge("kvasir_kv_cache_bytes",
                "Where a tier's bytes are; the sum is its capacity.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    const ByteAccount& bytes = tier.bytes;
    out.Add({{"tier", tier.tier}, {"kind", "free"}}, Number(bytes.free));
    out.Add({{"tier", tier.tier}, {"kind", "reserved"}},
            Number(bytes.reserved));
    out.Add({{"tier", tier.tier}, {"kind", "tokens"}}, Number(bytes.tokens));
    out.Add({{"tier", tier.tier}, {"kind", "fragmentation"}},
            Number(bytes.fragmentation));
    out.Add({{"tier", tier.tier}, {"kind", "leaving"}}, Number(bytes.leaving));
  }
  out.OpenGauge("kvasir_kv_cache_fragmentation_ratio",
                "Bytes of unfilled token places over bytes of filled and "
                "unfilled ones.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    out.Add({{"tier", tier.tier}},
            Ratio(tier.bytes.fragmentation,
                  tier.bytes.fragmentation + tier.bytes.tokens));
  }
}

// How much of the memory in use does what it is for.
void AddTierWaste(const EngineStats& stats, MetricFamilies& out) {
  out.OpenGauge("kvasir_kv_cache_external_fragmentation_bytes",
                "Committed bytes that no whole block can use: free pieces of "
                "split blocks, and what extents hold beyond the last block.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    out.Add({{"tier", tier.tier}}, Number(tier.external_fragmentation_bytes));
  }
  out.OpenGauge("kvasir_kv_cache_token_ratio",
                "Bytes that hold real tokens over all bytes of blocks in use.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    out.Add({{"tier", tier.tier}}, tier.TokenShare());
  }
}

void AddCanary(const CanaryCounts& canary, MetricFamilies& out) {
  out.OpenCounter("kvasir_canary_blocks_total",
                  "Cached blocks that were computed anew, by how they "
                  "compared.");
  out.Add({{"result", "equal"}}, Number(canary.equal_blocks));
  out.Add({{"result", "mismatch"}}, Number(canary.mismatched_blocks));
  out.Counter("kvasir_canary_skipped_prefixes_total",
              "Checks that were given up: the prefix was gone, there was no "
              "room, or a request came.",
              Number(canary.skipped_prefixes));
}

void AddTierBlocks(const EngineStats& stats, MetricFamilies& out) {
  out.OpenGauge("kvasir_kv_cache_usage_ratio",
                "Blocks that requests hold over all; cached ones count as "
                "free.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    out.Add(
        {{"tier", tier.tier}},
        Ratio(tier.blocks.reserved + tier.blocks.pinned, tier.blocks.total()));
  }
  out.OpenGauge("kvasir_kv_cache_blocks",
                "Blocks by state; the sum is the tier's total.");
  for (const TierSnapshot& tier : stats.cache.tiers) {
    const BlockCounts& blocks = tier.blocks;
    out.Add({{"tier", tier.tier}, {"state", "free"}}, Number(blocks.free));
    out.Add({{"tier", tier.tier}, {"state", "reserved"}},
            Number(blocks.reserved));
    out.Add({{"tier", tier.tier}, {"state", "pinned"}}, Number(blocks.pinned));
    out.Add({{"tier", tier.tier}, {"state", "cached"}}, Number(blocks.cached));
    out.Add({{"tier", tier.tier}, {"state", "leaving"}},
            Number(blocks.leaving));
  }
}

// What requests cannot count on, since operators want it kept.
void AddKept(const CacheSnapshot& cache, MetricFamilies& out) {
  out.Gauge("kvasir_kv_pinned_prefixes", "Prefixes that operators have pinned.",
            Number(cache.pinned_prefixes));
  out.OpenGauge("kvasir_kv_kept_blocks",
                "Blocks that no request may count on, by what keeps them: pins "
                "of prefixes, and floors of tenants beside them.");
  out.Add({{"by", "pin"}}, Number(cache.pinned_blocks));
  out.Add({{"by", "floor"}}, Number(cache.kept_blocks - cache.pinned_blocks));
}

void AddPrefixCache(const CacheSnapshot& cache, MetricFamilies& out) {
  const CacheCounters& counters = cache.counters;
  out.Counter("kvasir_prefix_cache_lookup_tokens_total",
              "Prompt tokens looked up, each request once.",
              Number(counters.lookup_tokens));
  out.OpenCounter("kvasir_prefix_cache_hit_tokens_total",
                  "Of these, found, by tier.");
  out.Add({{"tier", "device"}}, Number(counters.hit_tokens));
  out.Gauge("kvasir_prefix_cache_entries", "Blocks that a look-up can find.",
            Number(cache.index_entries));
  out.Counter("kvasir_prefix_cache_inserted_blocks_total",
              "Blocks made findable.", Number(counters.inserted_blocks));
  out.Counter("kvasir_prefix_cache_deduplicated_blocks_total",
              "Blocks sealed twice, whose second copy was freed.",
              Number(counters.deduplicated_blocks));
  out.Counter("kvasir_prefix_cache_rejected_collisions_total",
              "Look-ups whose hash agreed and whose tokens or identity did "
              "not.",
              Number(counters.rejected_collisions));
  out.OpenCounter("kvasir_kv_evicted_blocks_total",
                  "Cached blocks dropped, by why.");
  for (size_t i = 0; i < kEvictionCauseCount; ++i) {
    const auto cause = static_cast<EvictionCause>(i);
    out.Add(
        {{"tier", "device"}, {"reason", std::string(EvictionCauseName(cause))}},
        Number(counters.evicted[cause]));
  }
  out.Histograms("kvasir_kv_block_lifetime_seconds",
                 "How long dropped blocks were findable.",
                 cache.times.lifetime);
  out.Histograms("kvasir_kv_block_idle_before_evict_seconds",
                 "How long nobody had held the blocks that were dropped.",
                 cache.times.idle_before_evict);
  out.Histograms("kvasir_kv_block_reuse_gap_seconds",
                 "How long nobody had held the blocks that were found again.",
                 cache.times.reuse_gap);
  out.Counter("kvasir_kv_relocated_blocks_total",
              "Blocks that a resize copied elsewhere.",
              Number(counters.relocated_blocks));
}

}  // namespace

std::string NamesOf(const ServedModels& models) {
  return absl::StrJoin(
      models.active, ",",
      [](std::string* out, const ModelInfo& info) { out->append(info.name); });
}

void AddEngineMetrics(const ServedModels& models, const EngineStats& stats,
                      absl::Duration now, absl::Time wall,
                      MetricFamilies& families) {
  AddInfo(models, stats, families);
  AddVersions(models, stats, families);
  // One engine, one cache: of all models together.
  families.SetCommonLabels(NameLabel(NamesOf(models)));
  AddRequests(stats, families);
  AddTokens(stats, families);
  AddLatencies(stats, families);
  AddSteps(stats, now, wall, families);
  AddTierBlocks(stats, families);
  AddTierBytes(stats, families);
  AddTierWaste(stats, families);
  AddCanary(stats.canary, families);
  AddPrefixCache(stats.cache, families);
  AddKept(stats.cache, families);
  families.SetCommonLabels({});
}

}  // namespace kvasir
