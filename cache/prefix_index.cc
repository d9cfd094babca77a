#include "cache/prefix_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

PrefixIndex::PrefixIndex(int32_t block_tokens, int32_t hash_bits)
    : block_tokens_(block_tokens),
      hash_mask_(hash_bits == 0 ? 0 : ~uint64_t{0} << (64 - hash_bits)),
      hash_(block_tokens) {
  KV_CHECK(block_tokens > 0) << block_tokens;
  KV_CHECK(hash_bits >= 0 && hash_bits <= 64) << hash_bits;
}

BlockId PrefixIndex::Find(const BlockIdentity& identity) {
  const Candidates candidates = Search(identity);
  rejected_collisions_ += candidates.rejected;
  return candidates.found;
}

BlockId PrefixIndex::Peek(const BlockIdentity& identity) {
  return Search(identity).found;
}

// Most blocks follow a block that nothing else follows. Such an only child is
// either the one or there is none, which takes no hash.
PrefixIndex::Candidates PrefixIndex::Search(const BlockIdentity& identity) {
  if (identity.parent.valid()) {
    const Entry& parent = EntryOf(identity.parent);
    if (parent.child_count == 0) return {};
    if (parent.child_count == 1) {
      const BlockId child = parent.first_child;
      return {.found = Holds(child, identity) ? child : BlockId()};
    }
  }
  const uint64_t hash = HashOf(identity);
  const auto head = heads_.find(Cut(hash));
  Candidates candidates;
  if (head == heads_.end()) return candidates;
  for (BlockId block = head->second; block.valid();
       block = EntryOf(block).next) {
    if (Holds(block, identity)) {
      candidates.found = block;
      break;
    }
    ++candidates.rejected;
  }
  return candidates;
}

const BlockKey& PrefixIndex::Key(BlockId block) const {
  if (!Contains(block)) DieOfUnknown(block);
  return keys_.Of(block);
}

void PrefixIndex::Insert(const BlockIdentity& identity, BlockId block) {
  KV_CHECK(block.valid() && !Contains(block)) << "block " << block;
  KV_CHECK(identity.scope != nullptr);
  KV_CHECK(identity.tokens.size() == static_cast<size_t>(block_tokens_))
      << identity.tokens.size() << " tokens in a block of " << block_tokens_;
  MakeRoomFor(block);
  const size_t index = static_cast<size_t>(block.value());
  const bool first = !identity.parent.valid();
  const uint64_t hash = HashOf(identity);
  BlockId& head = heads_[Cut(hash)];
  Entry& entry = entries_[index];
  entry.parent = identity.parent;
  entry.depth = first ? 0 : EntryOf(identity.parent).depth + 1;
  entry.scope = identity.scope;
  entry.hash = hash;
  entry.next = head;
  head = block;
  LinkSibling(block);
  std::copy(identity.tokens.begin(), identity.tokens.end(),
            tokens_.begin() + index * block_tokens_);
  keys_.Insert(block, hasher_.Key(first ? nullptr : &Key(identity.parent),
                                  *identity.scope, identity.tokens));
  ++size_;
}

void PrefixIndex::Remove(BlockId block) {
  Entry& entry = EntryOf(block);
  KV_CHECK(entry.child_count == 0)
      << "block " << block << " has " << entry.child_count << " children";
  LinkTo(block) = entry.next;
  const auto head = heads_.find(Cut(entry.hash));
  if (!head->second.valid()) heads_.erase(head);
  UnlinkSibling(block);
  keys_.Remove(block);
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
  keys_.Relocate(from, to);
}

void PrefixIndex::Reserve(int64_t blocks) {
  entries_.reserve(static_cast<size_t>(blocks));
  tokens_.reserve(static_cast<size_t>(blocks * block_tokens_));
  heads_.reserve(static_cast<size_t>(blocks));
  keys_.Reserve(blocks);
}

void PrefixIndex::MakeRoomFor(BlockId block) {
  const size_t index = static_cast<size_t>(block.value());
  if (index < entries_.size()) return;
  entries_.resize(index + 1);
  tokens_.resize(entries_.size() * block_tokens_);
}

BlockId& PrefixIndex::LinkTo(BlockId block) {
  BlockId* link = &heads_.find(Cut(EntryOf(block).hash))->second;
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
  keys_.Clear();
  size_ = 0;
}

absl::Span<const TokenId> PrefixIndex::Tokens(BlockId block) const {
  if (!Contains(block)) DieOfUnknown(block);
  return absl::MakeConstSpan(tokens_).subspan(
      size_t{static_cast<uint32_t>(block.value())} * block_tokens_,
      block_tokens_);
}

void PrefixIndex::RecordHit(BlockId block) {
  int32_t& count = EntryOf(block).hit_count;
  if (count < std::numeric_limits<int32_t>::max()) ++count;
}

void PrefixIndex::RecordUse(BlockId block, int64_t tick) {
  EntryOf(block).last_use = tick;
}

std::vector<BlockId> PrefixIndex::Subtree(BlockId root) const {
  std::vector<BlockId> blocks = {root};
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (BlockId child = EntryOf(blocks[i]).first_child; child.valid();
         child = EntryOf(child).next_sibling) {
      blocks.push_back(child);
    }
  }
  return blocks;
}

std::vector<BlockId> PrefixIndex::Blocks() const {
  std::vector<BlockId> blocks;
  blocks.reserve(size_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const BlockId block(static_cast<BlockId::Value>(i));
    if (Contains(block)) blocks.push_back(block);
  }
  return blocks;
}

// Only first blocks need their scope hashed: the others have their parent's.
uint64_t PrefixIndex::HashOf(const BlockIdentity& identity) {
  const uint64_t before = identity.parent.valid()
                              ? EntryOf(identity.parent).hash
                              : StartOf(identity.scope);
  return hash_.Next(before, identity.tokens);
}

uint64_t PrefixIndex::StartOf(const std::shared_ptr<const BlockScope>& scope) {
  if (last_scope_ != scope) {
    last_scope_ = scope;
    last_start_ = LookupHash::Start(hasher_.Key(nullptr, *scope, {}));
  }
  return last_start_;
}

bool PrefixIndex::Holds(BlockId block, const BlockIdentity& identity) const {
  const Entry& entry = EntryOf(block);
  const size_t size = static_cast<size_t>(block_tokens_);
  return entry.parent == identity.parent &&
         (entry.scope == identity.scope || *entry.scope == *identity.scope) &&
         identity.tokens.size() == size &&
         std::memcmp(&tokens_[block.value() * size], identity.tokens.data(),
                     size * sizeof(TokenId)) == 0;
}

void PrefixIndex::DieOfUnknown(BlockId block) {
  KV_CHECK(false) << "block " << block << " is not indexed";
  std::abort();
}

std::vector<std::string> PrefixIndex::Violations() const {
  std::vector<std::string> found;
  const std::vector<BlockId> blocks = Blocks();
  if (static_cast<int64_t>(blocks.size()) != size_) {
    found.push_back(absl::StrCat("the index counts ", size_, " blocks and has ",
                                 blocks.size()));
  }
  for (std::string& violation : keys_.Violations(blocks)) {
    found.push_back(std::move(violation));
  }
  std::vector<int64_t> children(entries_.size(), 0);
  BlockHasher hasher;
  for (const BlockId block : blocks) {
    const IndexedBlock& entry = At(block);
    const BlockKey* parent_key = nullptr;
    uint64_t before = LookupHash::Start(hasher.Key(nullptr, *entry.scope, {}));
    int32_t depth = 0;
    if (entry.parent.valid()) {
      if (!Contains(entry.parent)) {
        found.push_back(absl::StrCat("indexed block ", block.value(),
                                     " has lost its parent ",
                                     entry.parent.value()));
        continue;
      }
      ++children[entry.parent.value()];
      parent_key = &Key(entry.parent);
      depth = At(entry.parent).depth + 1;
      before = At(entry.parent).hash;
    }
    const auto head = heads_.find(Cut(entry.hash));
    BlockId link = head == heads_.end() ? BlockId() : head->second;
    while (link.valid() && link != block) link = entries_[link.value()].next;
    if (link != block || entry.depth != depth ||
        entry.hash != hash_.Next(before, Tokens(block)) ||
        Key(block) != hasher.Key(parent_key, *entry.scope, Tokens(block))) {
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
