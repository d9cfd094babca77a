#include "engine/canary.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/model_runner.h"

namespace kvasir {

namespace {

// Of a full cache, a check may evict one block in so many.
constexpr int64_t kMostShare = 32;

}  // namespace

Canary::Canary(KvCache* cache, const VersionKeeper* versions, int64_t chunk)
    : cache_(cache), versions_(versions), chunk_(chunk) {}

bool Canary::Step() {
  if (!active() && !Begin()) return false;
  if (!active()) return true;
  Compute();
  if (active() &&
      check_->computed.token_count() == check_->cached.token_count()) {
    Judge();
  }
  return true;
}

void Canary::GiveWay() {
  if (!active()) return;
  ++counts_.skipped_prefixes;
  check_.reset();
}

// False if no hit waits for a check.
bool Canary::Begin() {
  std::optional<HitSample> sample = cache_->TakeHitSample();
  if (!sample.has_value()) return false;
  LeaseRequest request{.version = sample->version,
                       .purpose = LeasePurpose::kHeld,
                       .tokens = sample->tokens,
                       .salt = sample->salt,
                       // Neither is a request of anybody: nothing is counted.
                       .resumed = true};
  // One token more, since a lease finds at most all but the last.
  sample->tokens.push_back(0);
  request.tokens = sample->tokens;
  absl::StatusOr<Lease> cached = cache_->OpenLease(request);
  request.read_cache = false;
  request.write_cache = false;
  absl::StatusOr<Lease> computed = cache_->OpenLease(request);
  const bool there =
      cached.ok() && computed.ok() && versions_->Find(sample->version) &&
      cached->token_count() > 0 && FitsBeside(cached->block_count());
  if (!there) {
    ++counts_.skipped_prefixes;
    return true;
  }
  check_.emplace(
      Check{*std::move(sample), *std::move(cached), *std::move(computed)});
  return true;
}

// A check must not cost much of what it is for.
bool Canary::FitsBeside(int64_t blocks) const {
  const CapacityView capacity = cache_->Capacity();
  const int64_t free = capacity.free_pieces / capacity.pieces_per_block;
  return blocks <= std::max(free, capacity.total_blocks / kMostShare) &&
         blocks <= capacity.available_blocks();
}

void Canary::Compute() {
  const int64_t first = check_->computed.token_count();
  const int64_t left = check_->cached.token_count() - first;
  const auto tokens = absl::MakeConstSpan(check_->sample.tokens)
                          .subspan(first, std::min(chunk_, left));
  // Floors and pins may have taken the room that was there at first.
  if (cache_->PiecesNeeded(check_->computed,
                           static_cast<int64_t>(tokens.size())) >
      cache_->Capacity().available_pieces()) {
    return GiveWay();
  }
  const LeaseGrowth growth{&check_->computed, tokens};
  Reservation reservation = cache_->Reserve({&growth, 1});
  const StepRows rows{
      .tokens = tokens, .first_position = first, .table = reservation.Table(0)};
  if (versions_->Find(check_->sample.version)->runner().Run({&rows, 1}).ok()) {
    std::move(reservation).Commit();
    return;
  }
  ++counts_.skipped_prefixes;
  { const Reservation dropped = std::move(reservation); }
  check_.reset();
}

void Canary::Judge() {
  const int64_t blocks = check_->cached.block_count();
  const int64_t equal =
      cache_->CountEqualBlocks(check_->cached, check_->computed);
  counts_.equal_blocks += equal;
  std::optional<BlockKey> wrong;
  if (equal < blocks) {
    ++counts_.mismatched_blocks;
    wrong = cache_->KeyAt(check_->cached, equal);
  }
  check_.reset();
  if (wrong.has_value()) cache_->Condemn(*wrong);
}

}  // namespace kvasir
