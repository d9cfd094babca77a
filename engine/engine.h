#ifndef KVASIR_ENGINE_ENGINE_H_
#define KVASIR_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "engine/cache_resize.h"
#include "engine/cancel_flag.h"
#include "engine/engine_stats.h"
#include "engine/model_info.h"
#include "engine/prefix_order.h"
#include "engine/request.h"
#include "engine/served_version.h"
#include "engine/test_hooks.h"
#include "engine/token_sink.h"
#include "engine/version_order.h"
#include "engine/warm_order.h"

namespace kvasir {

// What a cache is sized for, once the weights are loaded. Plain value.
struct CacheSizeQuery {
  int64_t wanted_bytes = 0;  // by cache_bytes or cache_blocks; 0: by neither
  int64_t weight_bytes = 0;  // that stay in memory beside it
  int64_t block_bytes = 0;
};

// Memory that is kept free for weights which are about to be read, for as long
// as this lives.
using WeightRoom = std::shared_ptr<const void>;

// A model file and what clients call it; an empty name is the file's.
struct ModelSource {
  std::string name;
  std::string path;  // a GGUF file
};

// Most models that an engine starts with.
inline constexpr size_t kMaxStartModels = 16;

// Settings of an engine. Plain values, checked by Engine::Start().
struct EngineOptions {
  std::string model_path;     // a GGUF file
  std::string model_name;     // as clients call it; empty: from the file's name
  std::string version_label;  // of its first version; empty: from the digest
  // Further models, whose cache blocks have the first one's shape; each has one
  // version, active and labelled from its digest. All names differ.
  std::vector<ModelSource> more_models;

  int64_t cache_bytes = 0;   // device tier; 0: kDefaultCacheBytes
  int64_t cache_blocks = 0;  // instead of bytes, if not 0
  // Decides the bytes in the end; an error ends the start. Called where
  // Engine::Start() is. Empty: as cache_bytes and cache_blocks say.
  std::function<absl::StatusOr<int64_t>(const CacheSizeQuery&)> size_cache;
  // Asked before the weights of a further revision are read, with the bytes
  // that they take; an error ends the making of the version. Let go of when
  // they are in memory, or will not be. Called on the thread that reads them,
  // and may wait. Empty: whatever is read fits.
  std::function<absl::StatusOr<WeightRoom>(int64_t weight_bytes)> hold_weights;
  int32_t block_tokens = 16;
  std::string kv_type = "f16";  // "f16" or "f32"
  bool prefix_caching = true;
  // What makes room when the cache is full: "adaptive" or "lru", see
  // cache/eviction_policy.h.
  std::string eviction_policy = "adaptive";
  int32_t index_hash_bits = 64;  // test hook, see KvCache::Options
  // What tenants may count on and keep, from the start on. No salt comes twice.
  std::vector<TenantShare> tenant_quotas;

  // One of so many requests that find something in the cache has it checked by
  // the canary when the engine is idle; 0: none.
  int64_t canary_hits = 1000;

  int64_t context_limit = 0;    // 0: what the model was trained for
  int64_t token_budget = 256;   // rows per step
  int32_t prefill_chunk = 256;  // most rows of one sequence per step
  int32_t max_sequences = 64;   // sequences that hold a lease
  int32_t inbox_limit = 1024;   // requests submitted and not yet leased

  int32_t thread_count = 0;        // 0: what the process may use
  std::string activations = "q8";  // "q8" or "f32", see ActivationType
  bool force_scalar = false;

  // Called while the model loads with done and total bytes; returning false
  // abandons it (CANCELLED). May be empty.
  std::function<bool(int64_t, int64_t)> load_progress;

#if KVASIR_TEST_HOOKS
  EngineTestHooks test_hooks;
#endif
};

inline constexpr int64_t kDefaultCacheBytes = int64_t{512} << 20;

// INVALID_ARGUMENT, "field: wanted range, found value", if `options` make no
// sense whatever the model.
absl::Status CheckEngineOptions(const EngineOptions& options);

struct FlushOutcome {
  int64_t freed_blocks = 0;
  int64_t freed_bytes = 0;
};

// The inference engine: models in one version or several, their cache and the
// thread on which all of it changes. Knows nothing of the wire.
//
// Public methods are safe from any thread and never wait for a step, except
// where they say so. Events reach a request's sink on the engine thread.
class Engine {
 public:
  // Loads the models and starts the engine thread. Errors are those of
  // LoadStartModels(), INVALID_ARGUMENT for an option out of range,
  // RESOURCE_EXHAUSTED for memory.
  static absl::StatusOr<std::unique_ptr<Engine>> Start(
      const EngineOptions& options);

  // Ends at once: running requests get UNAVAILABLE.
  ~Engine();

  // The version that a request with these names gets; whoever has it can
  // tokenise with it and hand the request over, whatever happens to it
  // meanwhile. See VersionDirectory::Resolve().
  absl::StatusOr<std::shared_ptr<const ServedVersion>> Resolve(
      std::string_view model, std::string_view label) const;

  // All that are resident, model by model in the order of loading.
  std::vector<VersionInfo> Versions() const;

  // Makes a version beside those that serve; the order's sink is told how it
  // goes, and nothing if this is refused: UNAVAILABLE once the engine drains,
  // FAILED_PRECONDITION while another one is being made.
  absl::Status CreateVersion(VersionOrder order);

  // Moves of an operator, see VersionKeeper. Each waits for the end of the step
  // in hand.
  absl::StatusOr<VersionInfo> ActivateVersion(std::string_view model,
                                              std::string_view label);
  absl::StatusOr<VersionInfo> RollBackVersion(std::string_view model);
  absl::StatusOr<VersionInfo> DeleteVersion(std::string_view model,
                                            std::string_view label);

  // Hands a request over. OK: the sink will get exactly one FinishedEvent. A
  // request without a version gets the active one of the first model.
  // Any other status: the sink gets nothing. INVALID_ARGUMENT: empty prompt,
  // id out of range, parameters out of range, prompt over the context (with
  // both numbers). RESOURCE_EXHAUSTED: inbox full, or the prompt can never fit
  // in the cache. ALREADY_EXISTS: the id is in flight. UNAVAILABLE: draining
  // or unhealthy.
  absl::Status Submit(Request request, std::shared_ptr<TokenSink> sink);

  // Asks that the request ends; a step later its blocks are free and its sink
  // has a FinishedEvent with CANCELLED. False: no such request in flight.
  bool Cancel(std::string_view request_id, CancelSource source,
              std::string_view reason);

  // A sink is no longer full, see TokenSink::Full().
  void Wake();

  // Drops every cached block. Waits for the end of the step in hand.
  absl::StatusOr<FlushOutcome> FlushCache();

  // What an operator does with prefixes by name; see PrefixDesk. Each waits for
  // the end of the step in hand. UNAVAILABLE once the engine ends.
  //
  // What takes a selection walks through the cache, a turn after each step (see
  // kWalkTurn), and ends with CANCELLED once nobody wants it any more: what it
  // has dropped until then is gone.
  absl::StatusOr<std::vector<CachedPrefix>> ListPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted = nullptr);
  absl::StatusOr<CachedPrefix> GetPrefix(std::string_view id);
  // For `ttl` from now on, which may be infinite.
  absl::StatusOr<CachedPrefix> PinPrefix(std::string_view id,
                                         absl::Duration ttl);
  absl::StatusOr<CachedPrefix> UnpinPrefix(std::string_view id);
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(
      const PrefixSelection& selection, bool dry_run,
      const StillWanted& wanted = nullptr);
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(std::vector<std::string> ids,
                                                bool dry_run);
  // All that are meant, pinned ones too, but for what requests hold.
  absl::StatusOr<EvictedPrefixes> FlushPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted = nullptr);

  // Replaces the tenants' quotas by these, all of them or, with an error as at
  // the start, none. A tenant that is left out has none any more; what it kept
  // stays until somebody needs the room. Does not wait: the sink is told after
  // the step in hand.
  void SetTenantQuotas(std::vector<TenantShare> quotas,
                       std::shared_ptr<QuotaSink> sink);

  // Changes the size of the cache while requests run; the order's sink is told
  // how it goes. UNAVAILABLE once the engine ends; the sink then gets nothing.
  absl::Status ResizeCache(ResizeOrder order);

  // Computes prefixes before requests ask for them; the order's sink is told
  // how it goes, and nothing if this is refused: as CheckWarmOrder() says,
  // FAILED_PRECONDITION if there is no prefix cache, RESOURCE_EXHAUSTED if
  // kMaxWarmOrders wait for the engine, UNAVAILABLE once it drains. Requests
  // never wait for it, see Warmup. An order without a version is for the active
  // one of the first model.
  absl::Status WarmCache(WarmOrder order);

  // No new requests from now on; running ones go on. Warm-ups and versions that
  // are being made are called off, with UNAVAILABLE. Idempotent.
  void BeginDrain();
  // Cancels what still runs (after the grace period of a drain).
  void CancelAll(CancelSource source, std::string_view reason);
  // Waits until no request is in flight; false on timeout.
  bool WaitIdle(absl::Duration timeout);

  EngineStats Stats() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_ENGINE_H_
