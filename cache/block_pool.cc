#include "cache/block_pool.h"

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// By state. Every look-up moves each block that it finds twice, so that a
// table pays for itself.
constexpr int64_t BlockCounts::*kCountOf[] = {
    &BlockCounts::free, &BlockCounts::reserved, &BlockCounts::pinned,
    &BlockCounts::cached, &BlockCounts::leaving};
static_assert(static_cast<int>(BlockState::kLeaving) == 4);

int64_t& CountOf(BlockCounts& counts, BlockState state) {
  return counts.*kCountOf[static_cast<size_t>(state)];
}

bool BelongsToVersion(BlockState state) {
  return state != BlockState::kFree && state != BlockState::kLeaving;
}

}  // namespace

absl::string_view BlockStateName(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return "free";
    case BlockState::kReserved:
      return "reserved";
    case BlockState::kPinned:
      return "pinned";
    case BlockState::kCached:
      return "cached";
    case BlockState::kLeaving:
      break;
  }
  return "leaving";
}

BlockRef& BlockRef::operator=(BlockRef&& other) noexcept {
  if (this != &other) {
    if (pool_ != nullptr) Unpin();
    pool_ = std::exchange(other.pool_, nullptr);
    block_ = std::exchange(other.block_, BlockId());
  }
  return *this;
}

void BlockRef::Unpin() { pool_->Unpin(block_); }

BlockPool::BlockPool(int32_t block_tokens) : block_tokens_(block_tokens) {
  KV_CHECK(block_tokens > 0) << block_tokens;
}

BlockPool::~BlockPool() {
  KV_CHECK(total_.blocks.reserved == 0 && total_.blocks.pinned == 0)
      << total_.blocks.reserved << " reserved and " << total_.blocks.pinned
      << " pinned blocks outlive the pool";
}

void BlockPool::Grow(int64_t block_count) {
  KV_CHECK(block_count >= this->block_count() &&
           block_count <= std::numeric_limits<BlockId::Value>::max())
      << "from " << this->block_count() << " to " << block_count;
  const int64_t old_count = this->block_count();
  blocks_.resize(block_count);
  free_.Resize(block_count);
  for (int64_t id = old_count; id < block_count; ++id) {
    free_.Insert(BlockId(static_cast<BlockId::Value>(id)));
  }
  total_.blocks.free += block_count - old_count;
  SetLimit(block_count);
}

void BlockPool::SetLimit(int64_t limit) {
  KV_CHECK(limit >= 0 && limit <= block_count())
      << "limit " << limit << " of " << block_count() << " blocks";
  for (int64_t i = limit; i < limit_; ++i) {
    const BlockId id(static_cast<BlockId::Value>(i));
    if (blocks_[i].state != BlockState::kFree) continue;
    free_.Erase(id);
    Move(id, BlockState::kLeaving);
  }
  for (int64_t i = limit_; i < limit; ++i) {
    const BlockId id(static_cast<BlockId::Value>(i));
    if (blocks_[i].state != BlockState::kLeaving) continue;
    Move(id, BlockState::kFree);
    free_.Insert(id);
  }
  limit_ = limit;
}

bool BlockPool::TrimLast() {
  if (blocks_.empty() || blocks_.back().state != BlockState::kLeaving) {
    return false;
  }
  blocks_.pop_back();
  --total_.blocks.leaving;
  free_.Resize(block_count());
  return true;
}

BlockId BlockPool::Relocate(BlockId from) {
  KV_CHECK((state(from) == BlockState::kPinned && !split(from)) ||
           state(from) == BlockState::kCached)
      << "block " << from << " is " << (split(from) ? "split and " : "")
      << BlockStateName(state(from));
  const BlockId to = free_.First();
  free_.Erase(to);
  --total_.blocks.free;
  At(to) = At(from);
  // The totals count what moved once, and it still belongs to its owner.
  At(from) = Block();
  ++total_.blocks.free;
  free_.Insert(from);
  if (from.value() >= limit_) {
    free_.Erase(from);
    Move(from, BlockState::kLeaving);
  }
  return to;
}

BlockRef BlockPool::Grant(VersionId owner) {
  KV_CHECK(owner.valid());
  const BlockId id = free_.First();
  free_.Erase(id);
  Block& block = At(id);
  block.owner = owner;
  block.pins = 1;
  Move(id, BlockState::kReserved);
  return BlockRef(this, id);
}

void BlockPool::Fill(const BlockRef& ref, int32_t tokens) {
  Block& block = At(ref.block());
  KV_CHECK(block.pins == 1 && !block.kept && !block.split)
      << "block " << ref.block() << " is shared, sealed or split";
  KV_CHECK(tokens > 0 && tokens >= block.tokens && tokens <= block_tokens_)
      << "block " << ref.block() << " from " << block.tokens << " to " << tokens
      << " of " << block_tokens_ << " tokens";
  if (block.state == BlockState::kReserved) {
    Move(ref.block(), BlockState::kPinned);
  }
  total_.tokens += tokens - block.tokens;
  TallyOf(block.owner).tokens += tokens - block.tokens;
  block.tokens = tokens;
}

void BlockPool::Split(const BlockRef& ref) {
  Block& block = At(ref.block());
  KV_CHECK(block.pins == 1 && !block.kept && !block.split)
      << "block " << ref.block() << " is shared, sealed or split";
  if (block.state == BlockState::kReserved) {
    Move(ref.block(), BlockState::kPinned);
  }
  total_.tokens -= block.tokens;
  TallyOf(block.owner).tokens -= block.tokens;
  block.tokens = 0;
  MarkSplit(ref.block(), true);
}

void BlockPool::Join(const BlockRef& ref, VersionId owner, int32_t tokens) {
  SetOwner(ref, owner);
  MarkSplit(ref.block(), false);
  Fill(ref, tokens);
}

void BlockPool::SetOwner(const BlockRef& ref, VersionId owner) {
  Block& block = At(ref.block());
  KV_CHECK(block.split && owner.valid()) << "block " << ref.block();
  if (block.owner == owner) return;
  BlockTally& before = TallyOf(block.owner);
  --before.blocks.pinned;
  --before.split_blocks;
  block.owner = owner;
  ++TallyOf(owner).blocks.pinned;
  ++TallyOf(owner).split_blocks;
}

BlockRef BlockPool::Pin(BlockId id) {
  Block& block = At(id);
  KV_CHECK((block.state == BlockState::kPinned && !block.split) ||
           block.state == BlockState::kCached)
      << "block " << id << " is " << (block.split ? "split and " : "")
      << BlockStateName(block.state);
  if (block.state == BlockState::kCached) Move(id, BlockState::kPinned);
  ++block.pins;
  return BlockRef(this, id);
}

void BlockPool::Keep(const BlockRef& ref) {
  Block& block = At(ref.block());
  KV_CHECK(block.tokens == block_tokens_)
      << "block " << ref.block() << " holds " << block.tokens << " of "
      << block_tokens_ << " tokens";
  block.kept = true;
}

void BlockPool::Forget(BlockId id) {
  Block& block = At(id);
  KV_CHECK(block.kept) << "block " << id << " is not kept";
  block.kept = false;
  if (block.state == BlockState::kCached) Empty(id);
}

BlockTally BlockPool::tally(VersionId owner) const {
  const size_t index = static_cast<size_t>(owner.value());
  return index < by_owner_.size() ? by_owner_[index] : BlockTally();
}

void BlockPool::DieOfUnknown(BlockId block) const {
  KV_CHECK(false) << "block " << block << " of " << block_count();
  std::abort();
}

void BlockPool::MarkSplit(BlockId id, bool split) {
  Block& block = At(id);
  const int64_t change = int64_t{split} - int64_t{block.split};
  total_.split_blocks += change;
  TallyOf(block.owner).split_blocks += change;
  block.split = split;
}

void BlockPool::Move(BlockId id, BlockState to) {
  Block& block = At(id);
  if (block.split) MarkSplit(id, false);  // its pieces are gone
  --CountOf(total_.blocks, block.state);
  ++CountOf(total_.blocks, to);
  if (BelongsToVersion(block.state)) {
    --CountOf(TallyOf(block.owner).blocks, block.state);
  }
  if (BelongsToVersion(to)) {
    ++CountOf(TallyOf(block.owner).blocks, to);
  } else {
    total_.tokens -= block.tokens;
    if (block.tokens > 0) TallyOf(block.owner).tokens -= block.tokens;
    block.tokens = 0;
  }
  block.state = to;
}

void BlockPool::Unpin(BlockId id) {
  Block& block = At(id);
  KV_CHECK(block.pins > 0) << "block " << id << " has no pin";
  if (--block.pins > 0) return;
  if (block.kept) {
    Move(id, BlockState::kCached);
  } else {
    Empty(id);
  }
}

void BlockPool::Empty(BlockId id) {
  if (id.value() >= limit_) return Move(id, BlockState::kLeaving);
  Move(id, BlockState::kFree);
  free_.Insert(id);
}

std::vector<std::string> BlockPool::Violations() const {
  std::vector<std::string> found;
  BlockTally total;
  std::vector<BlockTally> by_owner(by_owner_.size());
  for (int64_t i = 0; i < block_count(); ++i) {
    const BlockId id(static_cast<BlockId::Value>(i));
    const Block& block = blocks_[i];
    const bool owned = BelongsToVersion(block.state);
    ++CountOf(total.blocks, block.state);
    total.tokens += block.tokens;
    total.split_blocks += block.split;
    if (owned) {
      BlockTally& tally = by_owner[block.owner.value()];
      tally.split_blocks += block.split;
      ++CountOf(tally.blocks, block.state);
      tally.tokens += block.tokens;
    }
    const bool pinned = block.state == BlockState::kReserved ||
                        block.state == BlockState::kPinned;
    const bool full = block.tokens == block_tokens_;
    const bool beyond = i >= limit_;
    if (free_.Contains(id) != (block.state == BlockState::kFree) ||
        (beyond && block.state == BlockState::kFree) ||
        (!beyond && block.state == BlockState::kLeaving) ||
        pinned != (block.pins > 0) || (!owned && block.tokens != 0) ||
        ((block.kept || block.pins > 1) && !full) ||
        ((block.state == BlockState::kCached) && !block.kept) ||
        (block.split && (block.state != BlockState::kPinned || block.kept)) ||
        ((block.state == BlockState::kPinned) &&
         (block.tokens == 0) != block.split)) {
      found.push_back(absl::StrCat(
          "block ", i, " is ", BlockStateName(block.state), " with ",
          block.pins, " pins, ", block.tokens, " tokens, ",
          block.kept ? "" : "not ", "kept, ", block.split ? "" : "not ",
          "split, ", free_.Contains(id) ? "" : "not ", "in the free set"));
    }
  }
  if (total != total_ || by_owner != by_owner_) {
    found.push_back("block counts by state differ from the blocks' states");
  }
  return found;
}

}  // namespace kvasir
