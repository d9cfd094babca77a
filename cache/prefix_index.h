#ifndef KVASIR_CACHE_PREFIX_INDEX_H_
#define KVASIR_CACHE_PREFIX_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/key_directory.h"
#include "cache/lookup_hash.h"

namespace kvasir {

// What the index knows of one block. Plain value.
struct IndexedBlock {
  BlockId parent;           // indexed too; invalid for a first block
  int32_t child_count = 0;  // indexed blocks whose parent this one is
  int32_t depth = 0;        // blocks before it in its prefix
  int32_t hit_count = 0;    // leases that found it, or the most there can be
  std::shared_ptr<const BlockScope> scope;
  int64_t last_use = 0;  // tick of the last lease that held it
  uint64_t hash = 0;     // the same for equal prefixes, in this index only
};

// From the identity of a sealed block to the block that holds it: a forest of
// blocks, each findable through its parent.
//
// A hash finds the candidates, or the parent does if it has one child only; a
// block is believed only when its parent, its scope and its token ids are equal
// to what is looked for (contract C1). A candidate with the same hash that is
// not is counted and passed over, and blocks with equal hashes live side by
// side. No look-up computes a key: it names a block once that is findable.
//
// Owns no memory: blocks are kept and dropped by the pool, and whoever removes
// a block from there removes it here first. Engine thread only.
class PrefixIndex {
 public:
  // Hashes are cut to `hash_bits` (0 to 64), a hook for tests.
  PrefixIndex(int32_t block_tokens, int32_t hash_bits);

  // So many blocks will cost no growth of a table.
  void Reserve(int64_t blocks);

  // The block with that identity, or an invalid id. Counts the candidates that
  // it rejects.
  BlockId Find(const BlockIdentity& identity);

  // The same without counting, for those who only want to know.
  BlockId Peek(const BlockIdentity& identity);

  // For those who name a prefix by its key; a lease goes by Find().
  const KeyDirectory& keys() const { return keys_; }
  const BlockKey& Key(BlockId block) const;  // of an indexed one

  // The identity must be new and its parent indexed; so must the block be new.
  // Computes its key.
  void Insert(const BlockIdentity& identity, BlockId block);

  // The block must have no child, or its children could never be found again.
  void Remove(BlockId block);

  // The block with all that is known of it is now called `to`, an id that is
  // not in the index. Costs a step for each of its children.
  void Relocate(BlockId from, BlockId to);

  void Clear();

  bool Contains(BlockId block) const {
    const auto index = static_cast<uint32_t>(block.value());
    return index < entries_.size() && entries_[index].scope != nullptr;
  }
  const IndexedBlock& At(BlockId block) const { return EntryOf(block); }
  absl::Span<const TokenId> Tokens(BlockId block) const;

  // Notes for the eviction policy.
  void RecordHit(BlockId block);
  void RecordUse(BlockId block, int64_t tick);

  // The block and all that are found through it, a parent before its children.
  std::vector<BlockId> Subtree(BlockId root) const;

  // All indexed blocks, by id. Walks the whole index: for tests.
  std::vector<BlockId> Blocks() const;

  int64_t size() const { return size_; }
  // No indexed block has a higher id than the one before this.
  int64_t id_limit() const { return static_cast<int64_t>(entries_.size()); }
  int64_t rejected_collisions() const { return rejected_collisions_; }

  // What must hold of the index and does not. Hashes every block.
  std::vector<std::string> Violations() const;

 private:
  // A cache line, so that a look-up reads one of these and the tokens. An
  // entry without a scope is not in use.
  struct alignas(64) Entry : IndexedBlock {
    BlockId next;  // with the same hash, as it is cut
    BlockId first_child;
    BlockId next_sibling;
    BlockId previous_sibling;
  };
  struct Candidates {
    BlockId found;
    int64_t rejected = 0;
  };

  Candidates Search(const BlockIdentity& identity);
  uint64_t HashOf(const BlockIdentity& identity);
  uint64_t StartOf(const std::shared_ptr<const BlockScope>& scope);
  uint64_t Cut(uint64_t hash) const { return hash & hash_mask_; }
  bool Holds(BlockId block, const BlockIdentity& identity) const;
  // Called for every block that a lease finds, so kept short enough to vanish
  // in its callers.
  const Entry& EntryOf(BlockId block) const {
    if (!Contains(block)) DieOfUnknown(block);
    return entries_[block.value()];
  }
  Entry& EntryOf(BlockId block) {
    return const_cast<Entry&>(std::as_const(*this).EntryOf(block));
  }
  [[noreturn]] static void DieOfUnknown(BlockId block);
  void MakeRoomFor(BlockId block);
  // The link that leads to the block among those with its hash.
  BlockId& LinkTo(BlockId block);
  void LinkSibling(BlockId block);
  void UnlinkSibling(BlockId block);

  const int32_t block_tokens_;
  const uint64_t hash_mask_;
  int64_t size_ = 0;
  int64_t rejected_collisions_ = 0;
  const LookupHash hash_;
  BlockHasher hasher_;
  std::shared_ptr<const BlockScope> last_scope_;  // whose blocks start from
  uint64_t last_start_ = 0;                       // this
  absl::flat_hash_map<uint64_t, BlockId> heads_;  // first block of each hash
  std::vector<Entry> entries_;                    // by block id
  KeyDirectory keys_;
  std::vector<TokenId> tokens_;  // by block id, block_tokens_ of each
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_INDEX_H_
