#ifndef KVASIR_CACHE_KEY_DIRECTORY_H_
#define KVASIR_CACHE_KEY_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"

namespace kvasir {

// The keys of the findable blocks: how operators find a prefix by its name or
// by the first digits of it. No look-up of a lease comes here.
//
// A map of the first four bytes of each key; the whole key decides. Keys are
// SHA-256, so that hardly ever two of them begin alike, and nobody can make
// many that do. Part of the PrefixIndex; engine thread only.
class KeyDirectory {
 public:
  // Least digits that StartingWith() takes.
  static constexpr size_t kMinDigits = 8;

  // So many blocks will cost no growth of a table.
  void Reserve(int64_t blocks);

  // The block has no key yet. Keys are different, being SHA-256.
  void Insert(BlockId block, const BlockKey& key);
  void Remove(BlockId block);  // must have one
  void Relocate(BlockId from, BlockId to);
  void Clear();

  // The block must have one.
  const BlockKey& Of(BlockId block) const { return keys_[block.value()]; }

  // The block with that key, or an invalid id.
  BlockId Find(const BlockKey& key) const;

  // The blocks whose keys begin with these digits, lower-case hex, kMinDigits
  // of them or more.
  std::vector<BlockId> StartingWith(absl::string_view digits) const;

  // What must hold of the directory and does not, given the indexed blocks.
  std::vector<std::string> Violations(const std::vector<BlockId>& blocks) const;

 private:
  BlockId First(uint32_t bytes) const;

  std::vector<BlockKey> keys_;                    // by block id
  std::vector<BlockId> next_;                     // with the same first bytes
  absl::flat_hash_map<uint32_t, BlockId> heads_;  // by the first bytes
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_KEY_DIRECTORY_H_
