#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

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
#include "engine/hooked_runner.h"
#include "engine/inbox.h"
#include "engine/model_loader.h"
#include "engine/model_runner.h"
#include "engine/request_check.h"

namespace kvasir {
namespace {

// Address space for all the memory that there is, so that the cache can grow;
// it costs none. A cache that starts larger is the operator's wish.
int64_t BlocksOfThisMachine(const KvLayout& layout) {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE) /
         layout.BlockBytes();
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
  auto made = KvCache::Create(cache, MakeHostMemory(), MakeLruPolicy());
  if (!absl::IsResourceExhausted(made.status())) return made;
  // Where address space is limited (ulimit -v), the cache does without growth.
  cache.address_space_blocks = blocks;
  return KvCache::Create(cache, MakeHostMemory(), MakeLruPolicy());
}

RequestLimits LimitsOf(const EngineOptions& options, const LoadedModel& model,
                       const KvCache& cache) {
  RequestLimits limits;
  limits.token_limit = model.token_limit;
  limits.tokens = &model.tokens;
  limits.model_context = model.info.max_context;
  if (options.context_limit > 0 &&
      options.context_limit < limits.model_context) {
    limits.model_context = options.context_limit;
  }
  limits.cache_tokens =
      cache.Capacity().total_blocks * model.layout.block_tokens;
  return limits;
}

}  // namespace

struct Engine::Impl {
  Impl(const EngineOptions& options, LoadedModel loaded,
       std::unique_ptr<KvCache> made_cache);
  void StartThread(const EngineOptions& options);
  RequestLimits CurrentLimits() const;

  const Clock& clock = Clock::Steady();

  // Fixed after construction; the engine thread changes what is inside.
  LoadedModel model;
  std::unique_ptr<KvCache> cache;
  RequestLimits limits;
  ModelRunner runner;
#if KVASIR_TEST_HOOKS
  HookedRunner hooked_runner;
#endif

  // Written by the engine thread, read by all: what `limits` starts with.
  std::atomic<int64_t> cache_tokens;

  // Lock themselves.
  Inbox inbox;
  StatsBoard board;

  std::unique_ptr<EngineLoop> loop;
  std::thread thread;
};

Engine::Impl::Impl(const EngineOptions& options, LoadedModel loaded,
                   std::unique_ptr<KvCache> made_cache)
    : model(std::move(loaded)),
      cache(std::move(made_cache)),
      limits(LimitsOf(options, model, *cache)),
      runner(model.transformer.get(),
             {.layout = model.layout, .sampleable_count = model.token_limit}),
#if KVASIR_TEST_HOOKS
      hooked_runner(&runner, options.test_hooks),
#endif
      cache_tokens(limits.cache_tokens),
      inbox(options.inbox_limit) {
}

RequestLimits Engine::Impl::CurrentLimits() const {
  RequestLimits current = limits;
  current.cache_tokens = cache_tokens.load(std::memory_order_relaxed);
  return current;
}

void Engine::Impl::StartThread(const EngineOptions& options) {
  EngineLoop::Parts parts;
  parts.cache = cache.get();
#if KVASIR_TEST_HOOKS
  parts.runner = &hooked_runner;
#else
  parts.runner = &runner;
#endif
  parts.tokenizer = model.tokenizer.get();
  parts.inbox = &inbox;
  parts.board = &board;
  parts.clock = &clock;
  parts.cache_tokens = &cache_tokens;
  loop = std::make_unique<EngineLoop>(
      parts, EngineLoop::Settings{
                 .limits = {.token_budget = options.token_budget,
                            .prefill_chunk = options.prefill_chunk,
                            .max_sequences = options.max_sequences},
                 .version = cache->AddVersion(model.info.cache_version,
                                              model.info.cache_fingerprint),
                 .version_label = model.info.cache_version,
                 .request_limits = limits,
                 .prefix_caching = options.prefix_caching});
  thread = std::thread([this] { loop->Run(); });
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(
    const EngineOptions& options) {
  RETURN_IF_ERROR(CheckEngineOptions(options));
#if KVASIR_TEST_HOOKS
  absl::SleepFor(options.test_hooks.load_delay);
#endif
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options));
  ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                   MakeCache(options, model.info.weight_bytes, model.layout));
  auto impl =
      std::make_unique<Impl>(options, std::move(model), std::move(cache));
  impl->StartThread(options);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  impl_->inbox.Stop();
  impl_->thread.join();
}

const Tokenizer& Engine::tokenizer() const { return *impl_->model.tokenizer; }

const ModelInfo& Engine::model() const { return impl_->model.info; }

int64_t Engine::max_context() const {
  return impl_->CurrentLimits().EffectiveContext();
}

bool Engine::cache_limits_context() const {
  const RequestLimits limits = impl_->CurrentLimits();
  return limits.cache_tokens < limits.model_context;
}

absl::Status Engine::Submit(Request request, std::shared_ptr<TokenSink> sink) {
  const absl::Status checked = CheckRequest(request, impl_->CurrentLimits());
  if (absl::IsResourceExhausted(checked)) {
    impl_->inbox.CountNeverFits();
  } else if (!checked.ok()) {
    impl_->inbox.CountInvalid();
  }
  RETURN_IF_ERROR(checked);
  request.sampling.drawable = &impl_->model.tokens;
  return impl_->inbox.Submit(std::move(request), std::move(sink),
                             impl_->clock.Now());
}

bool Engine::Cancel(std::string_view request_id, CancelSource source,
                    std::string_view reason) {
  return impl_->inbox.Cancel(request_id, source, reason);
}

absl::StatusOr<FlushOutcome> Engine::FlushCache() {
  struct Ticket {
    FlushResult result;
    absl::Notification done;
  };
  auto ticket = std::make_shared<Ticket>();
  RETURN_IF_ERROR(impl_->inbox.Post([ticket](KvCache& cache) {
    ticket->result = cache.Flush();
    ticket->done.Notify();
  }));
  ticket->done.WaitForNotification();
  return FlushOutcome{ticket->result.freed_blocks, ticket->result.freed_bytes};
}

absl::Status Engine::ResizeCache(ResizeOrder order) {
  return impl_->inbox.Post(std::move(order));
}

void Engine::BeginDrain() {
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
