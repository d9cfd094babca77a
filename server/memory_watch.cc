#include "server/memory_watch.h"

#include <malloc.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "cache/base/check.h"
#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/log.h"
#include "server/text.h"

namespace kvasir {
namespace {

// How long weights wait for a resize that is under way.
constexpr absl::Duration kOrderPatience = absl::Seconds(10);

const char* CauseText(ResizeCause cause) {
  switch (cause) {
    case ResizeCause::kLimit:
      return "memory is running out";
    case ResizeCause::kPressure:
      return "tasks wait for memory";
    case ResizeCause::kRoom:
      return "there is room";
    case ResizeCause::kNone:
      break;
  }
  return "nothing";
}

}  // namespace

// One order on its way through the engine. It gives up where it would wait for
// requests: the next look sees what is left to do.
class AutomaticResize final : public ResizeSink {
 public:
  bool OnProgress(const ResizeReport& report) override {
    const bool stuck = report.waits && report.block_count == last_blocks_;
    last_blocks_ = report.block_count;
    return !stuck;
  }
  void OnEnd(const absl::Status& status, const ResizeReport& report) override {
    absl::MutexLock lock(&mu_);
    end_ = {status, report};
  }
  std::optional<std::pair<absl::Status, ResizeReport>> end() const {
    absl::MutexLock lock(&mu_);
    return end_;
  }
  // The engine tells the end of every order that it takes.
  std::pair<absl::Status, ResizeReport> WaitForEnd() const {
    absl::MutexLock lock(&mu_);
    const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return end_.has_value();
    };
    mu_.Await(absl::Condition(&ended));
    return *end_;
  }

 private:
  int64_t last_blocks_ = -1;  // engine thread
  mutable absl::Mutex mu_;
  std::optional<std::pair<absl::Status, ResizeReport>> end_
      ABSL_GUARDED_BY(mu_);
};

MemoryWatch::MemoryWatch(CacheSizing sizing) : sizing_(std::move(sizing)) {}

MemoryWatch::~MemoryWatch() { Stop(); }

absl::StatusOr<int64_t> MemoryWatch::SizeCache(const CacheSizeQuery& query) {
  ASSIGN_OR_RETURN(const MemoryState state, ReadState());
  ASSIGN_OR_RETURN(const SizedCache sized,
                   SizeCacheAtStart(state, sizing_, query));
  const bool given = query.wanted_bytes > 0;
  const CacheRoom& room = sized.room;
  Log(LogLevel::kInfo, "the cache is sized",
      {{"cache", FormatBytes(sized.bytes)},
       {"by", given               ? std::string("setting")
              : sizing_.share > 0 ? absl::StrCat(sizing_.share * 100, "%")
                                  : std::string("auto")},
       {"left", FormatBytes(std::max<int64_t>(room.budget.left, 0))},
       {"of", Explain(room)}});
  if (sized.over_budget) {
    Log(LogLevel::kWarning,
        "the cache is larger than what the memory limit leaves for it; filled, "
        "it may end this process, unless --cache-auto-resize shrinks it first",
        {{"wanted", FormatBytes(std::max<int64_t>(room.budget.left, 0))},
         {"found", FormatBytes(sized.bytes)}});
  }
  absl::MutexLock lock(&mu_);
  weight_bytes_ = query.weight_bytes;
  floor_bytes_ = sizing_.floor_bytes;
  ceiling_bytes_ = sized.ceiling_bytes;
  given_ = given;
  return sized.bytes;
}

void MemoryWatch::Attach(GenerationBackend* backend) {
  KV_CHECK(backend_ == nullptr && backend != nullptr);
  backend_ = backend;
  const CacheSnapshot cache = backend->Stats().cache;
  const auto version = backend->Resolve("", "");
  if (cache.tiers.empty() || !version.ok()) return;
  absl::MutexLock lock(&mu_);
  if (floor_bytes_ == 0) {
    floor_bytes_ = FloorFor(cache.tiers.front().capacity_bytes,
                            (*version)->max_context() * cache.token_bytes);
  }
}

void MemoryWatch::Start(GenerationBackend* backend) {
  Attach(backend);
  if (sizing_.auto_resize) LogWhatIsWatched();
  thread_ = std::thread([this] { Run(); });
}

void MemoryWatch::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void MemoryWatch::Run() {
  while (true) {
    Look(Clock::Steady().Now());
    absl::MutexLock lock(&mu_);
    if (mu_.AwaitWithTimeout(absl::Condition(&stop_), kPeriod)) return;
  }
}

void MemoryWatch::LogWhatIsWatched() const {
  const absl::StatusOr<MemoryState> state = ReadState();
  std::vector<std::string> files;
  if (state.ok()) {
    for (const MemoryLimit& limit : state->limits) {
      if (limit.used_bytes > 0) files.push_back(limit.file);
    }
    if (state->pressure) files.push_back(state->pressure->file);
  }
  if (files.empty()) {
    Log(LogLevel::kWarning,
        "nothing here tells how much memory is used, so the cache keeps the "
        "size it has",
        {{"reason", std::string(state.status().message())}});
  } else {
    Log(LogLevel::kInfo, "watching memory",
        {{"files", absl::StrJoin(files, ",")}});
  }
}

void MemoryWatch::Look(absl::Duration now) {
  const absl::StatusOr<MemoryState> state = ReadState();
  const int64_t weights = ResidentWeightBytes(backend_->Versions());
  const CacheSnapshot cache = backend_->Stats().cache;
  if (!state.ok() || cache.tiers.empty()) return;
  std::optional<Ended> ended;
  std::optional<ResizeOrder> order;
  bool fewer_weights = false;
  {
    absl::MutexLock lock(&mu_);
    fewer_weights = weights < weight_bytes_;
    weight_bytes_ = weights;
    ended = TakeEnd(now);
    Notice(cache, *state, now);
    order = Decide(*state, now);
  }
  // The allocator keeps much of what is freed, unless it is asked.
  if (fewer_weights) malloc_trim(0);
  if (ended && ended->status.ok()) {
    Log(LogLevel::kInfo, "the cache has changed its size",
        {{"cache",
          FormatBytes(ended->report.block_count * ended->report.block_bytes)},
         {"because", ended->because},
         {"evicted_blocks", absl::StrCat(ended->report.evicted_blocks)}});
  }
  if (ended && !ended->status.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("the cache could not change its size: ",
                     ended->status.message()),
        {{"because", ended->because}});
  }
  if (!order) return;
  const std::shared_ptr<ResizeSink> sink = order->sink;
  const absl::Status taken = backend_->ResizeCache(*std::move(order));
  if (!taken.ok()) sink->OnEnd(taken, {});
}

std::optional<MemoryWatch::Ended> MemoryWatch::TakeEnd(absl::Duration now) {
  if (order_ == nullptr) return std::nullopt;
  const auto end = order_->end();
  if (!end) return std::nullopt;
  order_.reset();
  // Also where it did nothing, so that the next try is not at once.
  changed_ = now;
  if (end->first.ok()) ++resizes_[static_cast<size_t>(cause_)];
  return Ended{end->first, end->second,
               for_weights_ ? "weights are to be read" : CauseText(cause_)};
}

MemoryWatch::Seen MemoryWatch::SeenIn(const CacheSnapshot& cache) const {
  const TierSnapshot& tier = cache.tiers.front();
  const BlockCounts& blocks = tier.blocks;
  Seen seen;
  seen.block_bytes = tier.block_bytes;
  seen.cache = tier.capacity_bytes;
  // Pinned prefixes stay, too, and a shrink down to them is refused.
  seen.held = std::max(blocks.pinned + blocks.reserved,
                       cache.pinned_blocks > 0 ? cache.pinned_blocks + 1 : 0) *
              tier.block_bytes;
  seen.resident = std::min(
      std::max(seen_.resident, seen.held + blocks.cached * tier.block_bytes),
      seen.cache);
  return seen;
}

void MemoryWatch::Notice(const CacheSnapshot& cache, const MemoryState& state,
                         absl::Duration now) {
  const Seen seen = SeenIn(cache);
  if (seen.cache != seen_.cache) changed_ = now;
  seen_ = seen;
  const bool stalled = state.pressure && state.pressure->some > kCalmStalled;
  calm_since_ = stalled ? now : std::max(calm_since_, changed_);
  if (now - calm_since_ >= kMaxCalmTime) calm_needed_ = kCalmTime;
}

// Weights that are coming count as a whole, however much of them is in use
// already.
CacheRoom MemoryWatch::RoomIn(MemoryState state, const Seen& seen) const {
  for (MemoryLimit& limit : state.limits) {
    for (const MemoryLimit& before : coming_.before) {
      if (limit.file != before.file || limit.used_bytes == 0) continue;
      limit.used_bytes =
          std::max(limit.used_bytes, before.used_bytes + coming_.bytes);
    }
  }
  CacheSizing sizing = sizing_;
  if (given_) sizing.share = 1;
  return FindRoom(state, sizing,
                  {.weights = weight_bytes_ + coming_.bytes,
                   .cache_resident = seen.resident},
                  seen.block_bytes);
}

absl::StatusOr<int64_t> MemoryWatch::SizeBeside(const MemoryState& state,
                                                const Seen& seen,
                                                int64_t bytes) const {
  const int64_t least =
      sizing_.auto_resize
          ? std::min(std::max(floor_bytes_, seen.held), seen.cache)
          : seen.cache;
  return SizeCacheBeside(
      RoomIn(state, seen),
      {.cache = seen.cache, .least = least, .block_bytes = seen.block_bytes},
      bytes);
}

absl::StatusOr<WeightRoom> MemoryWatch::HoldWeights(int64_t bytes) {
  KV_CHECK(backend_ != nullptr);
  {
    // What is under way ends without waiting for anybody.
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(absl::Condition(this, &MemoryWatch::NoOrder),
                         kOrderPatience);
  }
  ASSIGN_OR_RETURN(const MemoryState state, ReadState());
  const int64_t weights = ResidentWeightBytes(backend_->Versions());
  const CacheSnapshot cache = backend_->Stats().cache;
  if (cache.tiers.empty()) return WeightRoom();
  std::optional<ResizeOrder> order;
  std::shared_ptr<AutomaticResize> sink;
  CacheRoom room;
  {
    absl::MutexLock lock(&mu_);
    weight_bytes_ = weights;
    const Seen seen = SeenIn(cache);
    room = RoomIn(state, seen);
    ASSIGN_OR_RETURN(const int64_t target, SizeBeside(state, seen, bytes));
    if (target < seen.cache && order_ != nullptr) {
      return absl::ResourceExhaustedError(
          "model_path: the cache is changing its size; try again");
    }
    KV_CHECK(coming_.bytes == 0) << "two revisions are read at a time";
    coming_ = {bytes, state.limits};
    if (target < seen.cache) {
      cause_ = ResizeCause::kLimit;
      order = OrderFor(target, seen);
      order->all_or_nothing = true;
      for_weights_ = true;
      sink = order_;
    }
  }
  WeightRoom held(this, [this](const void*) {
    absl::MutexLock lock(&mu_);
    coming_ = {};
  });
  if (order) RETURN_IF_ERROR(MakeRoom(*std::move(order), *sink, bytes, room));
  return held;
}

absl::Status MemoryWatch::MakeRoom(ResizeOrder order, AutomaticResize& sink,
                                   int64_t bytes, const CacheRoom& room) {
  const int64_t target = order.target_blocks;
  Log(LogLevel::kInfo, "the cache makes room for weights",
      {{"weights", FormatBytes(bytes)}, {"blocks", absl::StrCat(target)}});
  const absl::Status taken = backend_->ResizeCache(std::move(order));
  if (!taken.ok()) sink.OnEnd(taken, {});
  const auto [status, report] = sink.WaitForEnd();
  if (status.ok() && report.block_count <= target) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "model_path: wanted ", FormatBytes(bytes),
      " for its weights and a cache of ", target, " blocks beside them in ",
      Explain(room), ", found ", report.block_count, " blocks",
      status.ok() ? "" : absl::StrCat(": ", status.message())));
}

SizingView MemoryWatch::View(const MemoryState& state,
                             absl::Duration now) const {
  const CacheRoom room = RoomIn(state, seen_);
  SizingView view;
  view.left = room.budget.left;
  view.reserve = room.budget.reserve;
  view.room = room.room_bytes;
  if (state.pressure) {
    view.some_stalled = state.pressure->some;
    view.all_stalled = state.pressure->all;
  }
  view.cache = seen_.cache;
  view.resident = seen_.resident;
  view.held = seen_.held;
  view.floor = floor_bytes_;
  view.ceiling = std::max(ceiling_bytes_, floor_bytes_);
  view.block_bytes = seen_.block_bytes;
  view.since_change = now - changed_;
  view.calm = now - calm_since_;
  view.calm_needed = calm_needed_;
  return view;
}

std::optional<ResizeOrder> MemoryWatch::Decide(const MemoryState& state,
                                               absl::Duration now) {
  if (!sizing_.auto_resize || order_ != nullptr) return std::nullopt;
  const SizingDecision decision = PlanCacheSize(View(state, now));
  if (decision.cause == ResizeCause::kNone) return std::nullopt;
  calm_needed_ = CalmNeededAfter(cause_, decision.cause, calm_needed_);
  cause_ = decision.cause;
  return OrderFor(decision.target, seen_);
}

ResizeOrder MemoryWatch::OrderFor(int64_t target_bytes, const Seen& seen) {
  order_ = std::make_shared<AutomaticResize>();
  for_weights_ = false;
  ResizeOrder order;
  order.target_blocks = target_bytes / seen.block_bytes;
  order.strategy = ResizeStrategy::kEvict;
  order.from_blocks = seen.cache / seen.block_bytes;
  order.sink = order_;
  return order;
}

absl::StatusOr<CacheRoom> MemoryWatch::Room() const {
  ASSIGN_OR_RETURN(const MemoryState state, ReadState());
  absl::MutexLock lock(&mu_);
  return RoomIn(state, seen_);
}

void MemoryWatch::OnOperatorResize(int64_t bytes) {
  absl::MutexLock lock(&mu_);
  ceiling_bytes_ = bytes;
  floor_bytes_ = std::min(floor_bytes_, bytes);
  given_ = true;
}

absl::StatusOr<MemoryState> MemoryWatch::ReadState() const {
  return ReadMemoryState(sizing_.system_root);
}

MemoryWatch::Counts MemoryWatch::resizes() const {
  absl::MutexLock lock(&mu_);
  return resizes_;
}

}  // namespace kvasir
