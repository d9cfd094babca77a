#ifndef KVASIR_CACHE_REUSE_HISTORY_H_
#define KVASIR_CACHE_REUSE_HISTORY_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "cache/eviction_policy.h"

namespace kvasir {

// The blocks that were used last, in the cache or not any more, and how often
// each of them came: what a policy learns from and recognises returns by.
//
// Kept in the order of their last use, so that the leading ones are what a
// cache that evicts the least recently used would hold: a complete simulation
// of it for the price of a mark on each entry. A fixed number of entries per
// block of the cache; beyond it the oldest is forgotten. Engine thread only.
class ReuseHistory {
 public:
  struct Entry {
    BlockName name = 0;
    int64_t last_use = 0;   // in references, see AdaptivePolicy
    int32_t newer = kNone;  // neighbours in the order of use
    int32_t older = kNone;
    uint16_t use_count = 0;  // since it is known; stays at its maximum
    uint8_t kind = 0;        // see ReuseModel
    bool recent = false;     // the cache that is simulated holds it
  };

  static constexpr int64_t kEntriesPerBlock = 16;
  static constexpr int64_t kMinEntries = 1 << 16;

  // The cache has room for so many blocks. What is too much goes little by
  // little with the next calls of Use().
  void Resize(int64_t blocks);

  // The simulated cache holds at most so many blocks from now on.
  void LimitRecent(int64_t blocks);

  // The entry with that name, or null. Valid until the next Use().
  Entry* Find(BlockName name);
  const Entry* Find(BlockName name) const;

  // The entry with that name, made if it is new, as the one used last.
  Entry& Use(BlockName name);

  // What Use() drops next; there must be one.
  const Entry& oldest() const { return entries_[oldest_]; }

  // The entries in no order, for samples.
  const Entry& At(int64_t index) const { return entries_[index]; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t max_size() const { return max_entries_; }
  int64_t recent_count() const { return recent_count_; }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int kDropsPerUse = 2;  // most entries that one Use() drops

  void Link(int32_t entry);  // as the newest
  void Unlink(int32_t entry);
  void DropOldest();

  int64_t max_entries_ = kMinEntries;
  int64_t recent_count_ = 0;
  int64_t recent_limit_ = 0;
  int32_t newest_ = kNone;
  int32_t oldest_ = kNone;
  int32_t oldest_recent_ = kNone;
  std::vector<Entry> entries_;
  absl::flat_hash_map<BlockName, int32_t> index_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_REUSE_HISTORY_H_
