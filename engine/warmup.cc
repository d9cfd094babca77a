#include "engine/warmup.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "engine/prefix_sharing.h"
#include "engine/request_check.h"

namespace kvasir {
namespace {

absl::Status NoRoom(int64_t wanted, int64_t found) {
  return absl::ResourceExhaustedError(
      absl::StrCat("wanted ", wanted, " blocks of the cache, found ", found));
}

absl::Status DroppedAgain(const WarmedPrefix& result) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "wanted ", result.token_count, " tokens to be resident, ", "found ",
      result.resident_tokens, ": the cache has dropped the others again"));
}

// What the order as a whole has come to.
absl::Status Summary(const absl::Status& called_off,
                     absl::Span<const WarmedPrefix> results) {
  if (!called_off.ok()) return called_off;
  int64_t missing = 0;
  size_t first = results.size();
  for (size_t i = results.size(); i-- > 0;) {
    if (results[i].status.ok()) continue;
    ++missing;
    first = i;
  }
  if (missing == 0) return absl::OkStatus();
  const absl::Status& why = results[first].status;
  return absl::Status(
      why.code(), absl::StrCat(missing, " of ", results.size(),
                               " prefixes are not fully resident; prefixes[",
                               first, "]: ", why.message()));
}

}  // namespace

absl::Status CheckWarmTokens(int64_t count) {
  if (count <= kMaxWarmTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("warm tokens: wanted at most ", kMaxWarmTokens,
                   " in all prefixes together, found ", count));
}

absl::Status CheckWarmOrder(const WarmOrder& order) {
  KV_CHECK(order.version != nullptr && order.sink != nullptr);
  if (order.prefixes.empty() || order.prefixes.size() > kMaxWarmPrefixes) {
    return absl::InvalidArgumentError(absl::StrCat("prefixes: wanted 1 to ",
                                                   kMaxWarmPrefixes, ", found ",
                                                   order.prefixes.size()));
  }
  int64_t tokens = 0;
  for (const WarmPrefix& prefix : order.prefixes) {
    tokens += static_cast<int64_t>(prefix.tokens.size());
  }
  RETURN_IF_ERROR(CheckWarmTokens(tokens));
  if (order.parallelism < 1 || order.parallelism > kMaxWarmParallelism) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallelism: wanted 1 to ", kMaxWarmParallelism,
                     ", found ", order.parallelism));
  }
  return absl::OkStatus();
}

Warmup::Warmup(KvCache* cache, const VersionKeeper* versions,
               const Clock* clock)
    : cache_(cache), versions_(versions), clock_(clock) {}

void Warmup::Begin(WarmOrder order) {
  const int32_t block_tokens = cache_->layout().block_tokens;
  Progress progress;
  progress.results.resize(order.prefixes.size());
  progress.suspect.resize(order.prefixes.size());
  const RequestLimits limits = order.version->limits();
  for (size_t i = 0; i < order.prefixes.size(); ++i) {
    const std::vector<TokenId>& tokens = order.prefixes[i].tokens;
    const int64_t count = static_cast<int64_t>(tokens.size());
    WarmedPrefix& result = progress.results[i];
    result.token_count = count - count % block_tokens;
    result.status = CheckPrompt(tokens, limits);
    if (result.status.ok() && result.token_count == 0) {
      result.status = absl::InvalidArgumentError(
          absl::StrCat("wanted at least one whole block of ", block_tokens,
                       " tokens, found ", count));
    }
    if (result.status.ok()) progress.todo.push_back(i);
  }
  progress.order = std::move(order);
  if (orders_.size() < kMaxWarmOrders) {
    return orders_.push_back(std::move(progress));
  }
  const absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      "warm orders: ", orders_.size(), " wait, at most ", kMaxWarmOrders));
  for (WarmedPrefix& result : progress.results) result.status = full;
  ended_.push_back({std::move(progress.order.sink), full, progress.results});
}

// Those that wait for their turn: their clients may have gone, or the version.
void Warmup::EndUnwantedOrders() {
  for (size_t i = 1; i < orders_.size();) {
    Progress& waiting = orders_[i];
    const ServedVersion& version = *waiting.order.version;
    const WarmReport report{.prefix_count =
                                static_cast<int64_t>(waiting.results.size())};
    absl::Status why;
    if (!versions_->IsKept(version.id())) {
      why = absl::FailedPreconditionError(absl::StrCat(
          "version: ", QuoteText(version.label()), " has been deleted"));
    } else if (!waiting.order.sink->OnProgress(report)) {
      why = absl::CancelledError("the warm-up was called off");
    }
    if (why.ok()) {
      ++i;
      continue;
    }
    for (WarmedPrefix& result : waiting.results) result.status = why;
    ended_.push_back({std::move(waiting.order.sink), why, waiting.results});
    orders_.erase(orders_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Warmup::Continue(const std::optional<WarmRoom>& room) {
  if (!active()) return;
  EndUnwantedOrders();
  EndIfUnwanted();
  const auto computed = [this] {
    return now().todo.empty() && in_hand_.empty();
  };
  if (room.has_value() && !computed()) {
    ExtendLeases();
    DropDone();
    Admit(*room);
  }
  if (computed()) Check();
}

void Warmup::EndIfUnwanted() {
  if (!now().called_off.ok()) return;
  if (!versions_->IsKept(version().id())) {
    return GiveUp(absl::FailedPreconditionError(absl::StrCat(
        "version: ", QuoteText(version().label()), " has been deleted")));
  }
  if (!now().order.sink->OnProgress(Report())) {
    GiveUp(absl::CancelledError("the warm-up was called off"));
  }
}

WarmReport Warmup::Report() const {
  const Progress& progress = orders_.front();
  WarmReport report;
  report.prefix_count = static_cast<int64_t>(progress.results.size());
  report.done_count =
      report.prefix_count -
      static_cast<int64_t>(progress.todo.size() + in_hand_.size());
  for (const WarmedPrefix& result : progress.results) {
    report.computed_tokens += result.computed_tokens;
  }
  return report;
}

void Warmup::GiveUp(const absl::Status& why) {
  now().called_off = why;
  now().todo.clear();
  in_hand_.clear();
}

void Warmup::ExtendLeases() {
  for (Prefilling& one : in_hand_) cache_->ExtendLease(one.lease, one.tokens);
}

void Warmup::DropDone() {
  for (const Prefilling& one : in_hand_) {
    if (one.lease.token_count() == one.target) Pin(one);
  }
  std::erase_if(in_hand_, [](const Prefilling& one) {
    return one.lease.token_count() == one.target;
  });
}

// While its lease is there to keep it.
void Warmup::Pin(const Prefilling& done) {
  const WarmPrefix& wanted = now().order.prefixes[done.prefix];
  if (!wanted.pin) return;
  const absl::StatusOr<PrefixInfo> found =
      cache_->FindPrefix(RequestOf(wanted, done.tokens));
  // What a flush has cut off is looked up, and missed, at the end.
  if (!found.ok() || found->token_count != done.target) return;
  const absl::Duration ttl = wanted.retention.value_or(Retention()).ttl;
  now().results[done.prefix].status =
      cache_->PinPrefix(found->key, clock_->Now() + ttl).status();
}

void Warmup::Admit(const WarmRoom& room) {
  WarmRoom left = room;
  for (const Prefilling& one : in_hand_) {
    left.spare_pieces -=
        cache_->layout().PiecesFor(one.target) - one.lease.piece_count();
  }
  const size_t most = static_cast<size_t>(now().order.parallelism);
  int64_t lookups = kMaxWarmLookupTokens;
  while (!now().todo.empty() && in_hand_.size() < most && lookups > 0) {
    const size_t prefix = now().todo.front();
    lookups -= now().results[prefix].token_count;
    if (!BeginFirst(left)) return;
    DropDone();
  }
}

// The first prefix that waits gets a lease, or its end; or goes on waiting,
// which is said by false.
bool Warmup::BeginFirst(WarmRoom& room) {
  const size_t prefix = now().todo.front();
  const WarmPrefix& wanted = now().order.prefixes[prefix];
  WarmedPrefix& result = now().results[prefix];
  Prefilling one;
  one.prefix = prefix;
  one.target = result.token_count;
  one.tokens = LookUpTokens(prefix);
  one.use.salt = wanted.salt;
  const LeaseRequest request = RequestOf(wanted, one.tokens);
  const int64_t whole = cache_->layout().BlocksFor(one.target);
  const int64_t block = cache_->layout().PiecesPerBlock();
  int64_t pieces = whole * block;
  if (pieces > room.spare_pieces) {
    pieces -= cache_->CountSharedBlocks(request) * block;
  }
  if (pieces > room.spare_pieces) {
    const bool never =
        (room.alone && in_hand_.empty()) ||
        whole - cache_->PinnedPrefixBlocks(request) > room.total_blocks;
    if (!never) return false;
    result.status = NoRoom(whole, std::min(room.total_blocks, whole - 1));
    now().todo.pop_front();
    return true;
  }
  now().todo.pop_front();
  absl::StatusOr<Lease> lease = cache_->OpenLease(request);
  if (!lease.ok()) {
    result.status = std::move(lease).status();
    return true;
  }
  one.lease = *std::move(lease);
  if (one.lease.token_count() < one.target) room.spare_pieces -= pieces;
  in_hand_.push_back(std::move(one));
  return true;
}

LeaseRequest Warmup::RequestOf(const WarmPrefix& prefix,
                               absl::Span<const TokenId> tokens) const {
  // Nobody has asked for these tokens: like those of a sequence that resumes,
  // they are neither looked up nor hit (contract C3).
  return {.version = version().id(),
          .purpose = LeasePurpose::kWarm,
          .tokens = tokens,
          .salt = prefix.salt,
          .resumed = true,
          .retention = prefix.retention};
}

// The tokens of the whole blocks and one more, whichever: a lease finds at most
// all but the last of what it is given.
std::vector<TokenId> Warmup::LookUpTokens(size_t prefix) {
  std::vector<TokenId> tokens = now().order.prefixes[prefix].tokens;
  tokens.resize(static_cast<size_t>(now().results[prefix].token_count));
  tokens.push_back(tokens.front());
  return tokens;
}

std::vector<WarmRows> Warmup::Plan(int64_t budget, int64_t spare_pieces) {
  const KvLayout& layout = cache_->layout();
  const int64_t piece_tokens = layout.block_tokens / layout.PiecesPerBlock();
  std::vector<PrefillView> views;
  for (const Prefilling& one : in_hand_) {
    views.push_back(
        {one.tokens, one.lease.token_count(), &one.use, version().id()});
  }
  const std::vector<bool> waits = FindPrefixWaiters(views, layout.block_tokens);
  int64_t left = std::max<int64_t>(spare_pieces, 0);
  std::vector<WarmRows> rows;
  for (size_t i = 0; i < in_hand_.size(); ++i) {
    Prefilling& one = in_hand_[i];
    const int64_t computed = one.lease.token_count();
    const int64_t held = one.lease.piece_count();
    const int64_t room = (held + left) * piece_tokens - computed;
    const int64_t count = std::min({one.target - computed, budget, room});
    const bool suspect = now().suspect[one.prefix];
    if (waits[i] || count <= 0 || (suspect && !rows.empty())) continue;
    budget -= count;
    left -= layout.PiecesFor(computed + count) - held;
    rows.push_back(
        {.lease = &one.lease,
         .tokens = absl::MakeConstSpan(one.tokens).subspan(computed, count),
         .first_position = computed,
         .prefix = one.prefix});
    if (suspect) break;
  }
  return rows;
}

void Warmup::NoteComputed(absl::Span<const WarmRows> rows) {
  for (const WarmRows& one : rows) {
    now().results[one.prefix].computed_tokens +=
        static_cast<int64_t>(one.tokens.size());
  }
  if (!rows.empty()) DropDone();
}

void Warmup::NoteFailed(absl::Span<const WarmRows> rows,
                        const absl::Status& why) {
  if (rows.size() > 1) {
    for (const WarmRows& one : rows) now().suspect[one.prefix] = true;
    return;
  }
  for (const WarmRows& failed : rows) {
    now().results[failed.prefix].status = why;
    std::erase_if(in_hand_, [&](const Prefilling& one) {
      return one.prefix == failed.prefix;
    });
  }
}

bool Warmup::GiveWay() {
  if (in_hand_.empty()) return false;
  now().todo.push_front(in_hand_.back().prefix);
  in_hand_.pop_back();
  return true;
}

int64_t Warmup::HeldPieces() const {
  int64_t held = 0;
  for (const Prefilling& one : in_hand_) held += one.lease.piece_count();
  return held;
}

void Warmup::Unblock() {
  if (in_hand_.size() > 1) {
    GiveWay();
  } else if (!in_hand_.empty()) {
    const Prefilling& last = in_hand_.front();
    now().results[last.prefix].status = NoRoom(
        cache_->layout().BlocksFor(last.target), last.lease.block_count());
    in_hand_.clear();
  }
}

void Warmup::Check() {
  int64_t lookups = kMaxWarmLookupTokens;
  size_t& next = now().checked;
  for (; next < now().results.size() && lookups > 0; ++next) {
    WarmedPrefix& result = now().results[next];
    if (result.token_count == 0) continue;
    lookups -= result.token_count;
    const WarmPrefix& wanted = now().order.prefixes[next];
    const std::vector<TokenId> tokens = LookUpTokens(next);
    const absl::StatusOr<PrefixInfo> found =
        cache_->FindPrefix(RequestOf(wanted, tokens));
    result.resident_tokens = found.ok() ? found->token_count : 0;
    if (!result.status.ok()) continue;
    if (result.resident_tokens < result.token_count) {
      result.status =
          now().called_off.ok() ? DroppedAgain(result) : now().called_off;
    } else if (wanted.pin && !found->pinned) {
      result.status = absl::ResourceExhaustedError(
          "it is resident, but its pin has been taken off again");
    }
  }
  if (next == now().results.size()) End();
}

void Warmup::End() {
  Progress& done = now();
  ended_.push_back({std::move(done.order.sink),
                    Summary(done.called_off, done.results),
                    std::move(done.results)});
  orders_.pop_front();
}

void Warmup::CallOff(const absl::Status& why) {
  in_hand_.clear();
  for (; active(); orders_.pop_front()) {
    for (WarmedPrefix& result : now().results) result.status = why;
    ended_.push_back(
        {std::move(now().order.sink), why, std::move(now().results)});
  }
}

void Warmup::TellEnd() {
  for (const Ended& ended : std::exchange(ended_, {})) {
    ended.sink->OnEnd(ended.status, ended.results);
  }
}

}  // namespace kvasir
