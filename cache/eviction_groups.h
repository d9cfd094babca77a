#ifndef KVASIR_CACHE_EVICTION_GROUPS_H_
#define KVASIR_CACHE_EVICTION_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

#include "cache/base/strong_id.h"
#include "cache/eviction_order.h"
#include "cache/retention.h"

namespace kvasir {

// Blocks among which nothing but the policy decides. Plain value.
struct EvictionGroupKey {
  VersionId version;
  TenantIndex tenant = kNoTenant;
  int32_t priority = kDefaultRetentionPriority;
  bool pinned = false;   // by an operator
  bool guarded = false;  // by the policy, see EvictionPolicy::Guards()
  friend bool operator==(const EvictionGroupKey&,
                         const EvictionGroupKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const EvictionGroupKey& key) {
    return H::combine(std::move(state), key.version, key.tenant, key.priority,
                      key.pinned, key.guarded);
  }
};

// Who goes first, before the policy is asked: the lowest standing. Nothing: the
// group is protected, whatever happens.
using EvictionStanding = std::optional<int64_t>;

// The blocks that may be evicted now, in groups that differ in what they are
// kept by. Within a group an EvictionOrder decides, and between groups of one
// standing the first of them.
//
// Choosing is a walk over the groups that have blocks: a few as a rule, some
// hundred where clients use every priority. What is kept by block id is kept
// once for all groups. Engine thread only.
class EvictionGroups {
 public:
  // Groups without blocks that are kept for the next key, with the room they
  // had.
  static constexpr size_t kMaxEmptyGroups = 8;

  // So many blocks will cost no growth of a table.
  void Reserve(int64_t blocks) {
    positions_.reserve(static_cast<size_t>(blocks));
    group_of_.reserve(static_cast<size_t>(blocks));
  }

  // The block is in no group yet.
  void Insert(const EvictionGroupKey& key, const EvictionOrder::Place& place);
  void Remove(BlockId block);  // must be in a group

  // The block to evict first; invalid if all are protected or none is there.
  // `rank_of` is null if ranks do not change, see EvictionOrder::Refresh().
  // Unless `guarded_too`, guarded blocks go after others of their standing.
  using RankOf = absl::FunctionRef<EvictionRank(BlockId)>;
  BlockId First(
      absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)> standing,
      const RankOf* rank_of, bool guarded_too = true);

  // Whether First() would find one. Changes nothing.
  bool Offers(absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)>
                  standing) const;

  void Clear();

  bool Contains(BlockId block) const;
  int64_t size() const { return size_; }
  // With those that are empty.
  int64_t group_count() const { return static_cast<int64_t>(groups_.size()); }

  // What must hold of the groups and does not. Walks all blocks in them.
  std::vector<std::string> Violations() const;

 private:
  struct Group {
    explicit Group(EvictionOrder::Positions& positions) : order(positions) {}
    EvictionGroupKey key;
    EvictionOrder order;
    size_t index = 0;  // in groups_
  };

  Group& GroupOf(const EvictionGroupKey& key);
  void Retire(Group& group);
  void PutAt(size_t index, std::unique_ptr<Group> group);

  EvictionOrder::Positions positions_;          // of all orders
  std::vector<std::unique_ptr<Group>> groups_;  // the empty ones last
  size_t used_ = 0;                             // those that are not empty
  absl::flat_hash_map<EvictionGroupKey, Group*> by_key_;  // of these
  std::vector<Group*> group_of_;                          // by block id
  int64_t size_ = 0;
  std::vector<EvictionStanding> standings_;  // of groups_, within First()
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_GROUPS_H_
