#include "cache/prefix_index.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

PrefixIndex::PrefixIndex(int32_t block_tokens, int32_t hash_bits)
    : block_tokens_(block_tokens),
      hash_mask_(~uint64_t{0} >> (64 - hash_bits)) {
  KV_CHECK(block_tokens > 0) << block_tokens;
  KV_CHECK(hash_bits >= 1 && hash_bits <= 64) << hash_bits;
}

BlockId PrefixIndex::Find(const BlockIdentity& identity) {
  const auto head = heads_.find(HashOf(identity.key));
  if (head == heads_.end()) return BlockId();
  for (BlockId block = head->second; block.valid();
       block = EntryOf(block).next) {
    if (Holds(block, identity)) return block;
    ++rejected_collisions_;
  }
  return BlockId();
}

BlockId PrefixIndex::Peek(const BlockIdentity& identity) const {
  const auto head = heads_.find(HashOf(identity.key));
  BlockId block = head == heads_.end() ? BlockId() : head->second;
  while (block.valid() && !Holds(block, identity)) {
    block = entries_[block.value()].next;
  }
  return block;
}

BlockId PrefixIndex::FindKey(const BlockKey& key) const {
  const auto head = heads_.find(HashOf(key));
  BlockId block = head == heads_.end() ? BlockId() : head->second;
  while (block.valid() && At(block).key != key) {
    block = entries_[block.value()].next;
  }
  return block;
}

void PrefixIndex::Insert(const BlockIdentity& identity, BlockId block) {
  KV_CHECK(block.valid() && !Contains(block)) << "block " << block;
  KV_CHECK(identity.tokens.size() == static_cast<size_t>(block_tokens_))
      << identity.tokens.size() << " tokens in a block of " << block_tokens_;
  MakeRoomFor(block);
  const size_t index = static_cast<size_t>(block.value());
  const int64_t depth =
      identity.parent.valid() ? EntryOf(identity.parent).depth + 1 : 0;
  BlockId& head = heads_[HashOf(identity.key)];
  Entry& entry = entries_[index];
  entry = Entry();
  entry.key = identity.key;
  entry.parent = identity.parent;
  entry.scope = identity.scope;
  entry.depth = depth;
  entry.used = true;
  entry.next = head;
  head = block;
  LinkSibling(block);
  std::copy(identity.tokens.begin(), identity.tokens.end(),
            tokens_.begin() + index * block_tokens_);
  ++size_;
}

void PrefixIndex::Remove(BlockId block) {
  Entry& entry = EntryOf(block);
  KV_CHECK(entry.child_count == 0)
      << "block " << block << " has " << entry.child_count << " children";
  LinkTo(block) = entry.next;
  const auto head = heads_.find(HashOf(entry.key));
  if (!head->second.valid()) heads_.erase(head);
  UnlinkSibling(block);
  entry = Entry();
  --size_;
}

void PrefixIndex::Relocate(BlockId from, BlockId to) {
  KV_CHECK(to.valid() && !Contains(to)) << "block " << to;
  MakeRoomFor(to);
  LinkTo(from) = to;
  entries_[to.value()] = EntryOf(from);
  const Entry& entry = entries_[to.value()];
  if (entry.next_sibling.valid()) {
    EntryOf(entry.next_sibling).previous_sibling = to;
  }
  if (entry.previous_sibling.valid()) {
    EntryOf(entry.previous_sibling).next_sibling = to;
  } else if (entry.parent.valid()) {
    EntryOf(entry.parent).first_child = to;
  }
  for (BlockId child = entry.first_child; child.valid();
       child = EntryOf(child).next_sibling) {
    EntryOf(child).parent = to;
  }
  const absl::Span<const TokenId> tokens = Tokens(from);
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + int64_t{to.value()} * block_tokens_);
  EntryOf(from) = Entry();
}

void PrefixIndex::MakeRoomFor(BlockId block) {
  const size_t index = static_cast<size_t>(block.value());
  if (index < entries_.size()) return;
  entries_.resize(index + 1);
  tokens_.resize(entries_.size() * block_tokens_);
}

BlockId& PrefixIndex::LinkTo(BlockId block) {
  BlockId* link = &heads_.find(HashOf(EntryOf(block).key))->second;
  while (*link != block) link = &EntryOf(*link).next;
  return *link;
}

void PrefixIndex::LinkSibling(BlockId block) {
  Entry& entry = EntryOf(block);
  if (!entry.parent.valid()) return;
  Entry& parent = EntryOf(entry.parent);
  entry.next_sibling = parent.first_child;
  if (parent.first_child.valid()) {
    EntryOf(parent.first_child).previous_sibling = block;
  }
  parent.first_child = block;
  ++parent.child_count;
}

void PrefixIndex::UnlinkSibling(BlockId block) {
  const Entry& entry = EntryOf(block);
  if (entry.next_sibling.valid()) {
    EntryOf(entry.next_sibling).previous_sibling = entry.previous_sibling;
  }
  if (!entry.parent.valid()) return;
  Entry& parent = EntryOf(entry.parent);
  if (entry.previous_sibling.valid()) {
    EntryOf(entry.previous_sibling).next_sibling = entry.next_sibling;
  } else {
    parent.first_child = entry.next_sibling;
  }
  --parent.child_count;
}

void PrefixIndex::Clear() {
  heads_.clear();
  entries_.clear();
  tokens_.clear();
  size_ = 0;
}

bool PrefixIndex::Contains(BlockId block) const {
  const size_t index = static_cast<size_t>(block.value());
  return index < entries_.size() && entries_[index].used;
}

const IndexedBlock& PrefixIndex::At(BlockId block) const {
  KV_CHECK(Contains(block)) << "block " << block << " is not indexed";
  return entries_[block.value()];
}

absl::Span<const TokenId> PrefixIndex::Tokens(BlockId block) const {
  KV_CHECK(Contains(block)) << "block " << block << " is not indexed";
  return absl::MakeConstSpan(tokens_).subspan(
      size_t{static_cast<uint32_t>(block.value())} * block_tokens_,
      block_tokens_);
}

void PrefixIndex::RecordHit(BlockId block) { ++EntryOf(block).hit_count; }

void PrefixIndex::RecordUse(BlockId block, int64_t tick) {
  EntryOf(block).last_use = tick;
}

std::vector<BlockId> PrefixIndex::Blocks() const {
  std::vector<BlockId> blocks;
  blocks.reserve(size_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].used) {
      blocks.push_back(BlockId(static_cast<BlockId::Value>(i)));
    }
  }
  return blocks;
}

uint64_t PrefixIndex::HashOf(const BlockKey& key) const {
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(hash); ++i) {
    hash |= uint64_t{key[i]} << (8 * i);
  }
  return hash & hash_mask_;
}

bool PrefixIndex::Holds(BlockId block, const BlockIdentity& identity) const {
  const IndexedBlock& entry = At(block);
  return entry.parent == identity.parent &&
         (entry.scope == identity.scope || *entry.scope == *identity.scope) &&
         Tokens(block) == identity.tokens;
}

PrefixIndex::Entry& PrefixIndex::EntryOf(BlockId block) {
  KV_CHECK(Contains(block)) << "block " << block << " is not indexed";
  return entries_[block.value()];
}

std::vector<std::string> PrefixIndex::Violations() const {
  std::vector<std::string> found;
  const std::vector<BlockId> blocks = Blocks();
  if (static_cast<int64_t>(blocks.size()) != size_) {
    found.push_back(absl::StrCat("the index counts ", size_, " blocks and has ",
                                 blocks.size()));
  }
  std::vector<int64_t> children(entries_.size(), 0);
  BlockHasher hasher;
  for (const BlockId block : blocks) {
    const IndexedBlock& entry = At(block);
    const BlockKey* parent_key = nullptr;
    int64_t depth = 0;
    if (entry.parent.valid()) {
      if (!Contains(entry.parent)) {
        found.push_back(absl::StrCat("indexed block ", block.value(),
                                     " has lost its parent ",
                                     entry.parent.value()));
        continue;
      }
      ++children[entry.parent.value()];
      parent_key = &At(entry.parent).key;
      depth = At(entry.parent).depth + 1;
    }
    const auto head = heads_.find(HashOf(entry.key));
    BlockId link = head == heads_.end() ? BlockId() : head->second;
    while (link.valid() && link != block) link = entries_[link.value()].next;
    if (link != block || entry.depth != depth ||
        entry.key != hasher.Key(parent_key, *entry.scope, Tokens(block))) {
      found.push_back(absl::StrCat("indexed block ", block.value(),
                                   " has a wrong key, depth or hash chain"));
    }
  }
  for (const BlockId block : blocks) {
    int64_t linked = 0;
    BlockId previous;
    for (BlockId child = entries_[block.value()].first_child;
         child.valid() && linked <= size_; ++linked) {
      const Entry& entry = entries_[child.value()];
      if (entry.parent != block || entry.previous_sibling != previous) {
        found.push_back(absl::StrCat("indexed block ", child.value(),
                                     " is misplaced among its siblings"));
        break;
      }
      previous = child;
      child = entry.next_sibling;
    }
    if (At(block).child_count != children[block.value()] ||
        linked != children[block.value()]) {
      found.push_back(absl::StrCat("indexed block ", block.value(), " counts ",
                                   At(block).child_count, " children and has ",
                                   children[block.value()]));
    }
  }
  return found;
}

}  // namespace kvasir
