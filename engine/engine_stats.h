#ifndef KVASIR_ENGINE_ENGINE_STATS_H_
#define KVASIR_ENGINE_ENGINE_STATS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "cache/base/histogram.h"
#include "cache/base/strong_id.h"
#include "cache/snapshot.h"
#include "engine/finish_reason.h"
#include "engine/version_info.h"

namespace kvasir {

// What checks of cached blocks by the canary have come to. Totals that only
// grow.
struct CanaryCounts {
  int64_t equal_blocks = 0;
  int64_t mismatched_blocks = 0;  // the first wrong block of a prefix
  int64_t skipped_prefixes = 0;   // gone, or no room to compute them
};

// A prefix that requests come back to most. Plain value.
struct HotPrefixStat {
  VersionId version;
  std::string id;         // as CachedPrefix::id
  std::string salt_hash;  // see HashSalt()
  int64_t tokens = 0;
  int64_t hits = 0;  // see HotPrefix::hits
};

// Counters and latencies of one engine since its start. The engine thread
// writes its own copy and publishes it; everyone else reads the copy.
// Durations are in seconds.
struct EngineStats {
  EngineStats();

  int64_t requests_running = 0;  // hold a lease
  int64_t requests_waiting = 0;
  int64_t requests_paused = 0;  // of all these, see TokenSink::Full()
  // Nothing can be computed before a paused one goes on, or ends.
  bool waits_for_readers = false;

  // By FinishReason of the sequence that ended last, and the ends that are no
  // FinishReason.
  std::array<int64_t, kFinishReasonCount> finished{};
  int64_t cancelled_by_client = 0;
  int64_t cancelled_by_admin = 0;
  int64_t cancelled_by_deadline = 0;
  int64_t cancelled_by_drain = 0;
  int64_t failed = 0;
  int64_t rejected_inbox_full = 0;
  int64_t rejected_never_fits = 0;
  int64_t rejected_draining = 0;
  int64_t rejected_invalid = 0;
  int64_t preemptions = 0;

  int64_t prompt_tokens_computed = 0;
  int64_t prompt_tokens_cached = 0;
  int64_t generation_tokens = 0;
  // Prompt tokens that a further sequence of a request has computed, too.
  int64_t repeated_tokens = 0;
  int64_t recomputed_tokens = 0;  // after preemptions
  int64_t warmed_tokens = 0;  // computed by warm-ups; in none of those above
  int64_t steps = 0;

  Histogram ttft_hit;   // first token of requests with cached tokens
  Histogram ttft_miss;  // and of those without
  Histogram inter_token;
  Histogram time_per_output_token;
  Histogram request_duration;
  Histogram queue_time;
  Histogram prefill_time;
  Histogram decode_time;
  Histogram prompt_tokens;
  Histogram completion_tokens;
  Histogram step_prefill_seconds;
  Histogram step_decode_seconds;
  Histogram step_mixed_seconds;
  Histogram step_tokens;
  Histogram step_sequences;

  // Resident ones, of the same moment as `cache`.
  std::vector<VersionInfo> versions;

  absl::Duration last_step;  // steady time of the last step's end
  bool healthy = true;       // false after an error no request can survive
  CanaryCounts canary;
  // The hottest of all resident versions, no older than kHotTableInterval while
  // the engine is busy.
  std::vector<HotPrefixStat> hot_prefixes;
  std::string eviction_policy;
  CacheSnapshot cache;
};

// The published copy. The engine thread Publish()es after each step and while
// idle; any thread Read()s, and never waits for a step.
class StatsBoard {
 public:
  void Publish(const EngineStats& stats) ABSL_LOCKS_EXCLUDED(mu_);
  EngineStats Read() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  EngineStats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_ENGINE_STATS_H_
