#ifndef KVASIR_CACHE_PREFIX_INDEX_H_
#define KVASIR_CACHE_PREFIX_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"

namespace kvasir {

// What the index knows of one block. Plain value.
struct IndexedBlock {
  BlockKey key{};
  BlockId parent;  // indexed too; invalid for a first block
  std::shared_ptr<const BlockScope> scope;
  int64_t child_count = 0;  // indexed blocks whose parent this one is
  int64_t depth = 0;        // blocks before it in its prefix
  int64_t last_use = 0;     // tick of the last lease that held it
  int64_t hit_count = 0;    // leases that found it
};

// From the identity of a sealed block to the block that holds it: a forest of
// blocks, each findable through its parent.
//
// A hash finds the candidates; a block is believed only when its parent, its
// scope and its token ids are equal to what is looked for (contract C1). A
// candidate that is not is counted and passed over, and blocks with equal
// hashes live side by side.
//
// Owns no memory: blocks are kept and dropped by the pool, and whoever removes
// a block from there removes it here first. Engine thread only.
class PrefixIndex {
 public:
  // Hashes are the first bytes of the key, cut to `hash_bits` (1 to 64).
  PrefixIndex(int32_t block_tokens, int32_t hash_bits);

  // The block with that identity, or an invalid id. Counts the candidates that
  // it rejects.
  BlockId Find(const BlockIdentity& identity);

  // The same without counting, for those who only want to know.
  BlockId Peek(const BlockIdentity& identity) const;

  // The block with that key, or an invalid id. For those who name a prefix by
  // it; a lease goes by Find().
  BlockId FindKey(const BlockKey& key) const;

  // The identity must be new and its parent indexed; so must the block be new.
  void Insert(const BlockIdentity& identity, BlockId block);

  // The block must have no child, or its children could never be found again.
  void Remove(BlockId block);

  // The block with all that is known of it is now called `to`, an id that is
  // not in the index. Costs a step for each of its children.
  void Relocate(BlockId from, BlockId to);

  void Clear();

  bool Contains(BlockId block) const;
  const IndexedBlock& At(BlockId block) const;
  absl::Span<const TokenId> Tokens(BlockId block) const;

  // Notes for the eviction policy.
  void RecordHit(BlockId block);
  void RecordUse(BlockId block, int64_t tick);

  // All indexed blocks, by id. Walks the whole index.
  std::vector<BlockId> Blocks() const;

  int64_t size() const { return size_; }
  int64_t rejected_collisions() const { return rejected_collisions_; }

  // What must hold of the index and does not. Hashes every block.
  std::vector<std::string> Violations() const;

 private:
  struct Entry : IndexedBlock {
    bool used = false;
    BlockId next;  // with the same hash
    BlockId first_child;
    BlockId next_sibling;
    BlockId previous_sibling;
  };

  uint64_t HashOf(const BlockKey& key) const;
  bool Holds(BlockId block, const BlockIdentity& identity) const;
  Entry& EntryOf(BlockId block);
  void MakeRoomFor(BlockId block);
  // The link that leads to the block among those with its hash.
  BlockId& LinkTo(BlockId block);
  void LinkSibling(BlockId block);
  void UnlinkSibling(BlockId block);

  const int32_t block_tokens_;
  const uint64_t hash_mask_;
  int64_t size_ = 0;
  int64_t rejected_collisions_ = 0;
  absl::flat_hash_map<uint64_t, BlockId> heads_;  // first block of each hash
  std::vector<Entry> entries_;                    // by block id
  std::vector<TokenId> tokens_;  // by block id, block_tokens_ of each
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_INDEX_H_
