#ifndef KVASIR_CACHE_REUSE_HISTORY_H_
#define KVASIR_CACHE_REUSE_HISTORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "cache/base/strong_id.h"
#include "cache/eviction_policy.h"

namespace kvasir {

// The blocks that were used last, in the cache or not any more, and how often
// each of them came: what a policy learns from and recognises returns by.
//
// Kept in the order of their last use, so that the leading ones are what a
// cache that evicts the least recently used would hold: a complete simulation
// of it for the price of a mark on each entry. Which of these the real cache
// does not hold is counted, too. A fixed number of entries per block of the
// cache; beyond it the oldest is forgotten. Engine thread only.
class ReuseHistory {
 public:
  struct Entry {
    BlockName name = 0;
    int64_t last_use = 0;   // in references, see AdaptivePolicy
    int32_t newer = kNone;  // neighbours in the order of use
    int32_t older = kNone;
    BlockId block;            // where the cache had it last
    uint16_t use_count = 0;   // since it is known; stays at its maximum
    uint8_t kind = 0;         // see ReuseModel
    bool recent : 1 = false;  // the cache that is simulated holds it
    bool cached : 1 = false;  // the real one does
  };

  struct Used {
    Entry& entry;     // valid until the next Use(); use_count 0: it is new
    bool was_recent;  // before this use
    std::optional<Entry> forgotten;
  };

  static constexpr int64_t kEntriesPerBlock = 16;
  static constexpr int64_t kMinEntries = 1 << 16;

  // The cache has room for so many blocks. What is too much goes little by
  // little with the next calls of Use().
  void Resize(int64_t blocks);

  // The simulated cache holds at most so many blocks from now on.
  void LimitRecent(int64_t blocks);

  // The entry of that block, or null. Valid until the next Use().
  const Entry* Find(const BlockFacts& block) const;

  // The entry of that block, which is cached, made if it is new, as the one
  // used last.
  Used Use(const BlockFacts& block);

  // The block is not cached any more. If the simulated cache has to do without
  // it, too, it leaves that one as well.
  void Evict(const BlockFacts& block, bool from_both);

  // Nothing is cached any more, nor in the simulated cache. Walks all entries.
  void EvictAll();

  // The cached block has another id now.
  void Relocate(const BlockFacts& block);

  // A cached block that has left the simulated cache; each one is told once.
  // Invalid if there is none.
  BlockId TakeStale();

  // The entries in no order, for samples.
  const Entry& At(int64_t index) const { return entries_[index]; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t recent_count() const { return recent_count_; }
  // Blocks that the simulated cache holds and the real one does not.
  int64_t missing_count() const { return missing_count_; }

 private:
  static constexpr int32_t kNone = -1;

  int32_t IndexOf(const BlockFacts& block) const;
  void Remember(BlockId block, int32_t entry);
  void Link(int32_t entry);  // as the newest
  void Unlink(int32_t entry);
  void LinkBehindRecent(int32_t entry);
  void DropOldest();

  int64_t max_entries_ = kMinEntries;
  int64_t recent_count_ = 0;
  int64_t recent_limit_ = 0;
  int64_t missing_count_ = 0;
  int32_t newest_ = kNone;
  int32_t oldest_ = kNone;
  int32_t oldest_recent_ = kNone;
  int32_t told_ = kNone;  // the newest that TakeStale() has passed
  std::vector<Entry> entries_;
  std::vector<int32_t> by_block_;  // where an entry probably is, by block id
  absl::flat_hash_map<BlockName, int32_t> index_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_REUSE_HISTORY_H_
