#include "cache/tail_pieces.h"

#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

TailPieces::TailPieces(BlockPool& pool, const BlockArena& arena,
                       const KvLayout& layout)
    : pool_(pool),
      arena_(arena),
      layout_(layout),
      piece_tokens_(layout.PieceTokens()),
      pieces_per_block_(layout.PiecesPerBlock()) {}

TailPieces::~TailPieces() {
  KV_CHECK(blocks_.empty()) << used_pieces_ << " pieces outlive the cache";
}

void TailPieces::Resize(Tail& tail, int64_t piece_count) {
  KV_CHECK(piece_count >= 0 && piece_count <= pieces_per_block_)
      << piece_count << " pieces of a block of " << pieces_per_block_;
  while (static_cast<int64_t>(tail.pieces.size()) > piece_count) {
    const TailPiece last = tail.pieces.back();
    tail.pieces.pop_back();
    Release(last);
  }
  DropEmpty();
  tail.tokens =
      std::min(tail.tokens, static_cast<int32_t>(piece_count * piece_tokens_));
  while (static_cast<int64_t>(tail.pieces.size()) < piece_count) {
    tail.pieces.push_back(FindNext(tail));
    Hold(tail.pieces.back(), &tail);
  }
}

BlockRef TailPieces::Join(Tail& tail) {
  KV_CHECK(tail.tokens > 0);
  const BlockId first = tail.pieces.front().block;
  SplitBlock& block = blocks_.at(first);
  const auto count = static_cast<int64_t>(tail.pieces.size());
  bool in_place = block.free == pieces_per_block_ - count && Usable(first);
  for (int64_t i = 0; i < count && in_place; ++i) {
    in_place = tail.pieces[i] == PieceAt(first, i);
  }
  const int32_t tokens = std::exchange(tail.tokens, 0);
  if (!in_place) return JoinCopy(tail, tokens);
  Index(first, block.free, 0);
  BlockRef whole = std::move(block.ref);
  blocks_.erase(first);
  used_pieces_ -= count;
  tail.pieces.clear();
  pool_.Join(whole, tail.version, tokens);
  return whole;
}

BlockRef TailPieces::JoinCopy(Tail& tail, int32_t tokens) {
  if (pool_.tally().blocks.free > 0) {
    BlockRef whole = pool_.Grant(tail.version);
    CopyOut(tail, Bytes(whole.block()));
    DropEmpty();
    pool_.Fill(whole, tokens);
    return whole;
  }
  // The tokens wait outside of the pool while their own pieces help to make
  // room. Thus it goes even in a pool that holds more than its new limit, where
  // no piece is free: in a block that is to leave, if need be.
  std::vector<std::byte> waiting(static_cast<size_t>(layout_.BlockBytes()));
  CopyOut(tail, waiting.data());
  BlockRef whole = Evacuate(Emptiest(free_pieces() < pieces_per_block_));
  DropEmpty();
  std::memcpy(Bytes(whole.block()), waiting.data(), waiting.size());
  pool_.Join(whole, tail.version, tokens);
  return whole;
}

void TailPieces::CopyOut(Tail& tail, std::byte* to) {
  for (size_t i = 0; i < tail.pieces.size(); ++i) {
    CopyPiece(Bytes(tail.pieces[i].block), tail.pieces[i].first_slot, to,
              static_cast<int64_t>(i) * piece_tokens_);
  }
  for (const TailPiece piece : std::exchange(tail.pieces, {})) Release(piece);
}

void TailPieces::Split(BlockRef block, int32_t tokens, Tail& tail) {
  KV_CHECK(tail.pieces.empty() && tokens > 0 && tokens < layout_.block_tokens)
      << tokens << " tokens, " << tail.pieces.size() << " pieces";
  const BlockId id = block.block();
  AddSplit(std::move(block));
  for (int64_t i = 0; i < layout_.PiecesFor(tokens); ++i) {
    tail.pieces.push_back(PieceAt(id, i));
    Hold(tail.pieces.back(), &tail);
  }
  tail.tokens = tokens;
}

BlockRef TailPieces::GrantBlock(VersionId owner) {
  if (pool_.tally().blocks.free == 0) {
    KV_CHECK(MakeFreeBlock()) << free_pieces() << " free pieces";
  }
  return pool_.Grant(owner);
}

bool TailPieces::MakeFreeBlock() {
  if (free_pieces() < pieces_per_block_) return false;
  const BlockRef freed = Evacuate(Emptiest(false));
  return true;
}

bool TailPieces::Vacate(BlockId from) {
  const SplitBlock& block = blocks_.at(from);
  const int64_t elsewhere = free_pieces() - (Usable(from) ? block.free : 0) +
                            pool_.tally().blocks.free * pieces_per_block_;
  if (pieces_per_block_ - block.free > elsewhere) return false;
  const BlockRef freed = Evacuate(from);
  return true;
}

// The split block with the least to copy.
BlockId TailPieces::Emptiest(bool or_leaving) const {
  const auto emptiest = std::find_if(
      by_free_.rbegin(), by_free_.rend(),
      [&](const auto& entry) { return or_leaving || Usable(entry.second); });
  KV_CHECK(emptiest != by_free_.rend());
  return emptiest->second;
}

// The pieces' bytes stay where they are until each has found another place.
// Returns the block, still marked as split.
BlockRef TailPieces::Evacuate(BlockId from) {
  SplitBlock& block = blocks_.at(from);
  Index(from, block.free, 0);
  SplitBlock left = std::move(block);
  blocks_.erase(from);
  for (int64_t i = 0; i < pieces_per_block_; ++i) {
    Tail* const tail = left.holders[i];
    if (tail == nullptr) continue;
    const TailPiece old = PieceAt(from, i);
    const auto place = absl::c_find(tail->pieces, old);
    KV_CHECK(place != tail->pieces.end());
    --used_pieces_;  // Hold() counts it again
    *place = FindFree(tail->version, true);
    CopyPiece(Bytes(from), old.first_slot, Bytes(place->block),
              place->first_slot);
    Hold(*place, tail);
  }
  return std::move(left.ref);
}

TailPiece TailPieces::PieceAt(BlockId block, int64_t index) const {
  return {block, static_cast<int32_t>(index * piece_tokens_)};
}

bool TailPieces::Usable(BlockId block) const {
  return block.value() < pool_.limit();
}

// Best is the piece behind the tail's last one, so that a tail that is alone
// in its block needs no copying when it is full.
TailPiece TailPieces::FindNext(const Tail& tail) {
  if (!tail.pieces.empty()) {
    const TailPiece last = tail.pieces.back();
    const int32_t next = last.first_slot / piece_tokens_ + 1;
    if (Usable(last.block) && next < pieces_per_block_ &&
        blocks_.at(last.block).holders[next] == nullptr) {
      return PieceAt(last.block, next);
    }
  }
  return FindFree(tail.version, false);
}

// In the fullest split block, or in a fresh one. What is only moved may go to a
// block that is to leave, if there is nothing else.
TailPiece TailPieces::FindFree(VersionId owner, bool or_leaving) {
  auto fullest = absl::c_find_if(
      by_free_, [this](const auto& entry) { return Usable(entry.second); });
  if (fullest == by_free_.end() && pool_.tally().blocks.free == 0 &&
      or_leaving) {
    fullest = by_free_.begin();
  }
  BlockId block;
  if (fullest != by_free_.end()) {
    block = fullest->second;
  } else {
    BlockRef fresh = pool_.Grant(owner);
    block = fresh.block();
    AddSplit(std::move(fresh));
  }
  const std::vector<Tail*>& holders = blocks_.at(block).holders;
  return PieceAt(block, absl::c_find(holders, nullptr) - holders.begin());
}

void TailPieces::AddSplit(BlockRef ref) {
  const BlockId id = ref.block();
  pool_.Split(ref);
  SplitBlock& block = blocks_[id];
  block.ref = std::move(ref);
  block.holders.assign(pieces_per_block_, nullptr);
  block.free = pieces_per_block_;
  Index(id, 0, block.free);
}

void TailPieces::Hold(TailPiece piece, Tail* tail) {
  SplitBlock& block = blocks_.at(piece.block);
  Tail*& holder = block.holders[piece.first_slot / piece_tokens_];
  KV_CHECK(holder == nullptr) << "block " << piece.block;
  holder = tail;
  Index(piece.block, block.free, block.free - 1);
  --block.free;
  ++used_pieces_;
  UpdateOwner(block);
}

void TailPieces::Release(TailPiece piece) {
  SplitBlock& block = blocks_.at(piece.block);
  block.holders[piece.first_slot / piece_tokens_] = nullptr;
  --used_pieces_;
  Index(piece.block, block.free, block.free + 1);
  ++block.free;
  if (block.free < pieces_per_block_) UpdateOwner(block);
}

// Split blocks without a piece that anybody holds are free again.
void TailPieces::DropEmpty() {
  while (!by_free_.empty() && by_free_.rbegin()->first == pieces_per_block_) {
    const BlockId block = by_free_.rbegin()->second;
    Index(block, pieces_per_block_, 0);
    blocks_.erase(block);
  }
}

void TailPieces::Index(BlockId block, int32_t before, int32_t after) {
  if (before > 0) by_free_.erase({before, block});
  if (after > 0) by_free_.insert({after, block});
}

// A block is counted with the version of its first piece, so that none is
// counted with a version that holds nothing.
void TailPieces::UpdateOwner(SplitBlock& block) {
  const auto first = absl::c_find_if(
      block.holders, [](const Tail* tail) { return tail != nullptr; });
  pool_.SetOwner(block.ref, (*first)->version);
}

void TailPieces::CopyPiece(const std::byte* from, int64_t from_slot,
                           std::byte* to, int64_t to_slot) const {
  const int64_t number = KvTypeBytes(layout_.type);
  const int64_t piece = piece_tokens_ * number;
  const int64_t row = layout_.block_tokens * number;
  for (int32_t layer = 0; layer < layout_.layer_count; ++layer) {
    for (int32_t head = 0; head < layout_.kv_head_count; ++head) {
      const int64_t keys = layout_.KeyOffset(layer, head);
      for (int64_t d = 0; d < layout_.head_dim; ++d) {
        const int64_t at = keys + d * row;
        std::memcpy(to + at + to_slot * number, from + at + from_slot * number,
                    static_cast<size_t>(piece));
      }
      const int64_t values = layout_.ValueOffset(layer, head);
      const int64_t token = layout_.head_dim * number;
      std::memcpy(to + values + to_slot * token,
                  from + values + from_slot * token,
                  static_cast<size_t>(piece_tokens_ * token));
    }
  }
}

std::byte* TailPieces::Bytes(BlockId block) const {
  return arena_.base() + int64_t{block.value()} * arena_.block_bytes();
}

PieceTally TailPieces::tally() const { return tally(VersionId()); }

// A tail is counted where its first piece lies, and of all tails if `owner` is
// invalid.
PieceTally TailPieces::tally(VersionId owner) const {
  PieceTally tally;
  for (const auto& [id, block] : blocks_) {
    for (int64_t i = 0; i < pieces_per_block_; ++i) {
      const Tail* const tail = block.holders[i];
      if (tail == nullptr || tail->pieces.front() != PieceAt(id, i) ||
          (owner.valid() && tail->version != owner)) {
        continue;
      }
      const int64_t held = layout_.PiecesFor(tail->tokens);
      tally.held += held;
      tally.reserved += static_cast<int64_t>(tail->pieces.size()) - held;
      tally.tokens += tail->tokens;
    }
  }
  return tally;
}

int64_t TailPieces::packed_blocks() const {
  return (used_pieces_ + pieces_per_block_ - 1) / pieces_per_block_;
}

int64_t TailPieces::free_pieces() const {
  int64_t free = 0;
  for (const auto& [count, block] : by_free_) free += Usable(block) ? count : 0;
  return free;
}

int64_t TailPieces::leaving_pieces() const {
  int64_t free = 0;
  for (const auto& [count, block] : by_free_) free += Usable(block) ? 0 : count;
  return free;
}

std::vector<std::string> TailPieces::Violations() const {
  std::vector<std::string> found;
  int64_t used = 0;
  size_t indexed = 0;
  for (const auto& [id, block] : blocks_) {
    int32_t free = 0;
    VersionId first_version;
    for (int64_t i = 0; i < pieces_per_block_; ++i) {
      const Tail* const tail = block.holders[i];
      if (tail == nullptr) {
        ++free;
        continue;
      }
      if (!first_version.valid()) first_version = tail->version;
      if (absl::c_count(tail->pieces, PieceAt(id, i)) != 1) {
        found.push_back(absl::StrCat("piece ", i, " of block ", id.value(),
                                     " is not the one its tail has"));
      }
    }
    used += pieces_per_block_ - free;
    indexed += by_free_.count({free, id});
    if (block.ref.block() != id || !pool_.split(id) || free != block.free ||
        free == pieces_per_block_ || pool_.owner(id) != first_version ||
        (free > 0) != (by_free_.count({free, id}) == 1)) {
      found.push_back(absl::StrCat("split block ", id.value(), " has ", free,
                                   " free pieces and counts ", block.free));
    }
  }
  if (used != used_pieces_ || indexed != by_free_.size() ||
      static_cast<int64_t>(blocks_.size()) != pool_.tally().split_blocks) {
    found.push_back(absl::StrCat(used, " pieces in ", blocks_.size(),
                                 " split blocks, counted ", used_pieces_,
                                 " in ", pool_.tally().split_blocks, ", ",
                                 by_free_.size(), " with free ones listed"));
  }
  return found;
}

}  // namespace kvasir
