#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"
#include "engine/engine_loop.h"
#include "engine/inbox.h"
#include "engine/model/drawable_tokens.h"
#include "engine/model/token_set.h"
#include "engine/model_set.h"
#include "engine/prefix_desk.h"
#include "engine/request_check.h"
#include "engine/request_group.h"
#include "engine/version_directory.h"
#include "engine/version_keeper.h"
#include "engine/version_loader.h"
#include "engine/walk_turn.h"

namespace kvasir {
namespace {

// Address space for all the memory that there is, so that the cache can grow;
// it costs none. A cache that starts larger is the operator's wish.
int64_t BlocksOfThisMachine(const KvLayout& layout) {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) /
         layout.BlockBytes();
}

// What the request may draw of its version's tokens, which that keeps alive.
absl::StatusOr<std::shared_ptr<const TokenSet>> DrawableFor(
    const Request& request) {
  const RequestLimits limits = request.version->limits();
  const std::shared_ptr<const TokenSet> tokens(request.version, limits.tokens);
  return DrawableTokens(tokens, limits.token_limit, request.sampling,
                        EndersOf(request));
}

absl::Status CheckAddressable(int64_t blocks, const KvLayout& layout) {
  const int64_t most = KvCache::MaxBlocks(layout);
  if (blocks <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cache_blocks: wanted at most ", most, " of ",
                   layout.BlockBytes(), " bytes, found ", blocks));
}

absl::StatusOr<int64_t> CacheBlocks(const EngineOptions& options,
                                    int64_t weight_bytes,
                                    const KvLayout& layout) {
  RETURN_IF_ERROR(CheckAddressable(options.cache_blocks, layout));
  const int64_t block_bytes = layout.BlockBytes();
  int64_t bytes = options.cache_blocks > 0 ? options.cache_blocks * block_bytes
                                           : options.cache_bytes;
  if (options.size_cache) {
    ASSIGN_OR_RETURN(bytes, options.size_cache({.wanted_bytes = bytes,
                                                .weight_bytes = weight_bytes,
                                                .block_bytes = block_bytes}));
  } else if (bytes == 0) {
    bytes = kDefaultCacheBytes;
  }
  if (bytes >= block_bytes) return bytes / block_bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("cache_bytes: wanted at least one block of ", block_bytes,
                   " bytes, found ", bytes));
}

absl::StatusOr<std::unique_ptr<KvCache>> MakeCache(const EngineOptions& options,
                                                   int64_t weight_bytes,
                                                   const KvLayout& layout) {
  ASSIGN_OR_RETURN(const int64_t blocks,
                   CacheBlocks(options, weight_bytes, layout));
  RETURN_IF_ERROR(CheckAddressable(blocks, layout));
  KvCache::Options cache;
  cache.layout = layout;
  cache.capacity_blocks = blocks;
  cache.address_space_blocks = std::max(
      blocks,
      std::min(KvCache::MaxBlocks(layout), BlocksOfThisMachine(layout)));
  cache.prefix_caching = options.prefix_caching;
  cache.index_hash_bits = options.index_hash_bits;
  cache.hits_per_sample = options.canary_hits;
  const auto make = [&]() -> absl::StatusOr<std::unique_ptr<KvCache>> {
    ASSIGN_OR_RETURN(std::unique_ptr<EvictionPolicy> policy,
                     EvictionPolicyByName(options.eviction_policy));
    return KvCache::Create(cache, MakeHostMemory(), std::move(policy));
  };
  auto made = make();
  if (absl::IsResourceExhausted(made.status())) {
    // Where address space is limited (ulimit -v), the cache does without
    // growth.
    cache.address_space_blocks = blocks;
    made = make();
  }
  if (!made.ok()) return made;
  RETURN_IF_ERROR(ApplyTenantQuotas(options.tenant_quotas, **made));
  return made;
}

// What floors keep nobody may count on.
int64_t PromisedTokens(const KvCache& cache) {
  const int64_t total = cache.Capacity().total_blocks;
  return (total - cache.KeptBlocks(total)) * cache.layout().block_tokens;
}

}  // namespace

struct Engine::Impl {
  Impl(const EngineOptions& options, const KvLayout& layout,
       std::unique_ptr<KvCache> made_cache);
  absl::Status AddStartVersion(const EngineOptions& options,
                               const StartModel& model, std::string_view label);
  void StartThread(const EngineOptions& options);
  // What `work(cache, versions)` returns, a StatusOr, done between two steps.
  template <typename Work>
  auto BetweenSteps(Work work)
      -> decltype(work(std::declval<KvCache&>(),
                       std::declval<VersionKeeper&>()));
  absl::StatusOr<VersionInfo> Move(
      std::function<absl::StatusOr<VersionInfo>(VersionKeeper&)> move);
  // The same for what `work(desk)` does with prefixes.
  template <typename Work>
  auto AtDesk(Work work) -> decltype(work(std::declval<PrefixDesk&>()));
  // The whole order, as far as somebody wants it. Nobody else may touch it.
  template <typename Order>
  absl::Status Walk(Order& order, const StillWanted& wanted);

  const Clock& clock = Clock::Steady();

  const bool prefix_caching;

  // Fixed after construction; the engine thread changes what is inside.
  std::unique_ptr<KvCache> cache;

  // Written by the engine thread, read by all.
  CachePromise promise;

  // Lock themselves.
  Inbox inbox;
  StatsBoard board;
  VersionDirectory directory;

  VersionKeeper versions;                  // the engine thread's
  std::vector<TenantShare> tenant_quotas;  // in force; the engine thread's
  std::unique_ptr<EngineLoop> loop;
  std::thread thread;
  VersionLoader loader;
};

Engine::Impl::Impl(const EngineOptions& options, const KvLayout& layout,
                   std::unique_ptr<KvCache> made_cache)
    : prefix_caching(options.prefix_caching),
      cache(std::move(made_cache)),
      promise(PromisedTokens(*cache)),
      inbox(options.inbox_limit),
      versions(cache.get(), &directory),
      tenant_quotas(options.tenant_quotas),
      loader({.options = options,
              .layout = layout,
              .directory = &directory,
              .inbox = &inbox,
              .promise = &promise}) {}

absl::Status Engine::Impl::AddStartVersion(const EngineOptions& options,
                                           const StartModel& model,
                                           std::string_view label) {
  ServedVersion::Parts parts =
      MakeVersionParts(options, model.revision, model.name, label, &promise);
  VersionInfo info = InfoOf(parts, model.path, 0);
  return versions.Add(std::move(parts), std::move(info)).status();
}

void Engine::Impl::StartThread(const EngineOptions& options) {
  loop = std::make_unique<EngineLoop>(
      EngineLoop::Parts{.cache = cache.get(),
                        .versions = &versions,
                        .inbox = &inbox,
                        .board = &board,
                        .clock = &clock,
                        .promise = &promise},
      EngineLoop::Settings{.limits = {.token_budget = options.token_budget,
                                      .prefill_chunk = options.prefill_chunk,
                                      .max_sequences = options.max_sequences},
                           .prefix_caching = options.prefix_caching,
                           .eviction_policy = options.eviction_policy});
  thread = std::thread([this] { loop->Run(); });
}

template <typename Work>
auto Engine::Impl::BetweenSteps(Work work)
    -> decltype(work(std::declval<KvCache&>(),
                     std::declval<VersionKeeper&>())) {
  struct Ticket {
    decltype(work(std::declval<KvCache&>(),
                  std::declval<VersionKeeper&>())) result;
    absl::Notification done;
  };
  auto ticket = std::make_shared<Ticket>();
  // Told when the command goes, which is after its numbers are published.
  auto told = absl::MakeCleanup([ticket] { ticket->done.Notify(); });
  RETURN_IF_ERROR(
      inbox.Post([ticket, work = std::move(work), told = std::move(told)](
                     KvCache& cache, VersionKeeper& keeper) {
        ticket->result = work(cache, keeper);
      }));
  ticket->done.WaitForNotification();
  return std::move(ticket->result);
}

absl::StatusOr<VersionInfo> Engine::Impl::Move(
    std::function<absl::StatusOr<VersionInfo>(VersionKeeper&)> move) {
  return BetweenSteps(
      [move = std::move(move)](KvCache&, VersionKeeper& keeper) {
        return move(keeper);
      });
}

template <typename Work>
auto Engine::Impl::AtDesk(Work work)
    -> decltype(work(std::declval<PrefixDesk&>())) {
  return BetweenSteps(
      [this, work = std::move(work)](KvCache& prefixes, VersionKeeper&) {
        PrefixDesk desk(&prefixes, directory.List(),
                        {.steady = clock.Now(), .wall = absl::Now()});
        return work(desk);
      });
}

template <typename Order>
absl::Status Engine::Impl::Walk(Order& order, const StillWanted& wanted) {
  for (bool done = false; !done;) {
    if (wanted && !wanted()) {
      return absl::CancelledError("nobody waits for it any more");
    }
    ASSIGN_OR_RETURN(done, AtDesk([this, &order](PrefixDesk& desk) {
                       return WalkForATurn(clock, desk, order);
                     }));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(
    const EngineOptions& options) {
  RETURN_IF_ERROR(CheckEngineOptions(options));
#if KVASIR_TEST_HOOKS
  absl::SleepFor(options.test_hooks.load_delay);
#endif
  ASSIGN_OR_RETURN(const std::vector<StartModel> models,
                   LoadStartModels(options));
  const KvLayout layout = models.front().revision->layout;
  ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                   MakeCache(options, WeightBytes(models), layout));
  auto impl = std::make_unique<Impl>(options, layout, std::move(cache));
  for (const StartModel& model : models) {
    const bool first = &model == &models.front();
    RETURN_IF_ERROR(impl->AddStartVersion(options, model,
                                          first ? options.version_label : ""));
  }
  impl->StartThread(options);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  impl_->inbox.Stop();
  impl_->thread.join();
}

absl::StatusOr<std::shared_ptr<const ServedVersion>> Engine::Resolve(
    std::string_view model, std::string_view label) const {
  return impl_->directory.Resolve(model, label);
}

std::vector<VersionInfo> Engine::Versions() const {
  return impl_->directory.List();
}

absl::Status Engine::CreateVersion(VersionOrder order) {
  return impl_->loader.Begin(std::move(order));
}

absl::StatusOr<VersionInfo> Engine::ActivateVersion(std::string_view model,
                                                    std::string_view label) {
  return impl_->Move([model = std::string(model),
                      label = std::string(label)](VersionKeeper& versions) {
    return versions.Activate(model, label);
  });
}

absl::StatusOr<VersionInfo> Engine::RollBackVersion(std::string_view model) {
  return impl_->Move([model = std::string(model)](VersionKeeper& versions) {
    return versions.RollBack(model);
  });
}

absl::StatusOr<VersionInfo> Engine::DeleteVersion(std::string_view model,
                                                  std::string_view label) {
  return impl_->Move([model = std::string(model),
                      label = std::string(label)](VersionKeeper& versions) {
    return versions.Delete(model, label);
  });
}

absl::Status Engine::Submit(Request request, std::shared_ptr<TokenSink> sink) {
  if (request.version == nullptr) {
    ASSIGN_OR_RETURN(request.version, Resolve("", ""));
  }
  absl::Status checked = CheckRequest(request, request.version->limits());
  if (checked.ok()) {
    absl::StatusOr<std::shared_ptr<const TokenSet>> drawable =
        DrawableFor(request);
    checked = drawable.status();
    if (drawable.ok()) request.sampling.drawable = *std::move(drawable);
  }
  if (absl::IsResourceExhausted(checked)) {
    impl_->inbox.CountNeverFits();
  } else if (!checked.ok()) {
    impl_->inbox.CountInvalid();
  }
  RETURN_IF_ERROR(checked);
  return impl_->inbox.Submit(std::move(request), std::move(sink),
                             impl_->clock.Now());
}

bool Engine::Cancel(std::string_view request_id, CancelSource source,
                    std::string_view reason) {
  return impl_->inbox.Cancel(request_id, source, reason);
}

void Engine::Wake() { impl_->inbox.Wake(); }

absl::StatusOr<FlushOutcome> Engine::FlushCache() {
  return impl_->BetweenSteps(
      [](KvCache& cache, VersionKeeper&) -> absl::StatusOr<FlushOutcome> {
        const FlushResult result = cache.Flush();
        return FlushOutcome{result.freed_blocks, result.freed_bytes};
      });
}

absl::StatusOr<std::vector<CachedPrefix>> Engine::ListPrefixes(
    const PrefixSelection& selection, const StillWanted& wanted) {
  PrefixListOrder order{.selection = selection};
  RETURN_IF_ERROR(impl_->Walk(order, wanted));
  return TakeSorted(order);
}

void Engine::SetTenantQuotas(std::vector<TenantShare> quotas,
                             std::shared_ptr<QuotaSink> sink) {
  auto end = std::make_shared<absl::Status>(
      absl::UnavailableError("the engine has ended"));
  // As in BetweenSteps(): told when the command goes, whatever becomes of it.
  auto told = absl::MakeCleanup([sink, end] { sink->OnEnd(*end); });
  impl_->inbox
      .Post([this, quotas = std::move(quotas), sink, end,
             told = std::move(told)](KvCache& cache, VersionKeeper&) {
        if (!sink->Begin()) {
          *end = absl::CancelledError("nobody waits for it any more");
          return;
        }
        *end = ReplaceTenantQuotas(impl_->tenant_quotas, quotas, cache);
        if (end->ok()) impl_->tenant_quotas = quotas;
      })
      .IgnoreError();
}

absl::StatusOr<CachedPrefix> Engine::GetPrefix(std::string_view id) {
  return impl_->AtDesk(
      [id = std::string(id)](PrefixDesk& desk) { return desk.Get(id); });
}

absl::StatusOr<CachedPrefix> Engine::PinPrefix(std::string_view id,
                                               absl::Duration ttl) {
  return impl_->AtDesk([id = std::string(id), ttl](PrefixDesk& desk) {
    return desk.Pin(id, ttl);
  });
}

absl::StatusOr<CachedPrefix> Engine::UnpinPrefix(std::string_view id) {
  return impl_->AtDesk(
      [id = std::string(id)](PrefixDesk& desk) { return desk.Unpin(id); });
}

absl::StatusOr<EvictedPrefixes> Engine::EvictPrefixes(
    const PrefixSelection& selection, bool dry_run, const StillWanted& wanted) {
  PrefixSweepOrder order{.selection = selection, .dry_run = dry_run};
  RETURN_IF_ERROR(impl_->Walk(order, wanted));
  return order.evicted;
}

absl::StatusOr<EvictedPrefixes> Engine::EvictPrefixes(
    std::vector<std::string> ids, bool dry_run) {
  return impl_->AtDesk([ids = std::move(ids), dry_run](PrefixDesk& desk) {
    return desk.Evict(ids, dry_run);
  });
}

absl::StatusOr<EvictedPrefixes> Engine::FlushPrefixes(
    const PrefixSelection& selection, const StillWanted& wanted) {
  PrefixSweepOrder order{.selection = selection, .flush = true};
  RETURN_IF_ERROR(impl_->Walk(order, wanted));
  return order.evicted;
}

absl::Status Engine::ResizeCache(ResizeOrder order) {
  return impl_->inbox.Post(std::move(order));
}

absl::Status Engine::WarmCache(WarmOrder order) {
  if (!impl_->prefix_caching) {
    return absl::FailedPreconditionError(
        "prefix_caching: it is off, so that nothing could be found again");
  }
  if (order.version == nullptr) {
    ASSIGN_OR_RETURN(order.version, Resolve("", ""));
  }
  RETURN_IF_ERROR(CheckWarmOrder(order));
  return impl_->inbox.Post(std::move(order));
}

void Engine::BeginDrain() {
  impl_->loader.CallOff();
  impl_->inbox.Close(absl::UnavailableError(
      "the engine is draining and takes no new requests"));
}

void Engine::CancelAll(CancelSource source, std::string_view reason) {
  impl_->inbox.CancelAll(source, reason);
}

bool Engine::WaitIdle(absl::Duration timeout) {
  return impl_->inbox.WaitIdle(timeout);
}

EngineStats Engine::Stats() const {
  EngineStats stats = impl_->board.Read();
  // What the engine thread has not seen yet, and what never gets there.
  stats.requests_waiting += impl_->inbox.untaken();
  const Rejections rejections = impl_->inbox.rejections();
  stats.rejected_invalid = rejections.invalid;
  stats.rejected_never_fits = rejections.never_fits;
  stats.rejected_inbox_full = rejections.inbox_full;
  stats.rejected_draining = rejections.draining;
  return stats;
}

}  // namespace kvasir
