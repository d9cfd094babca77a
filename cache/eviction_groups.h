#ifndef KVASIR_CACHE_EVICTION_GROUPS_H_
#define KVASIR_CACHE_EVICTION_GROUPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
};

// Who goes first, before the policy is asked: the lowest standing. Nothing: the
// group is protected, whatever happens.
using EvictionStanding = std::optional<int64_t>;

// The blocks that may be evicted now, in groups that differ in what they are
// kept by. Only a few groups exist at a time, so that choosing one is a walk
// over them; within a group an EvictionOrder decides, and between groups of one
// standing the first of them.
//
// Engine thread only.
class EvictionGroups {
 public:
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

  void Clear();

  bool Contains(BlockId block) const;
  int64_t size() const { return size_; }
  int64_t group_count() const { return static_cast<int64_t>(groups_.size()); }

  // What must hold of the groups and does not. Walks all blocks in them.
  std::vector<std::string> Violations() const;

 private:
  struct Group {
    EvictionGroupKey key;
    EvictionOrder order;
  };
  static constexpr int32_t kAbsent = -1;

  int32_t SlotOf(const EvictionGroupKey& key);

  // Empty ones are taken again for other keys before more are made.
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<int32_t> slots_;  // in groups_, by block id
  int64_t size_ = 0;
  std::vector<EvictionStanding> standings_;  // of groups_, within First()
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_GROUPS_H_
