// Random operations on a KvCache and on a model of it that is too simple to be
// wrong: prefixes are compared as whole token vectors, nothing is hashed, and
// victims are found by looking at everything.

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using TokenVector = std::vector<TokenId>;

// Identity of a block: fingerprint, salt and all tokens up to its end.
using Prefix = std::tuple<std::string, std::string, TokenVector>;

struct TwinBlock {
  Prefix prefix;
  int pins = 0;
  int64_t tokens = 0;
  bool findable = false;
  int64_t last_use = 0;
};
using TwinBlockPtr = std::shared_ptr<TwinBlock>;

struct TwinLease {
  std::string fingerprint;
  std::string salt;
  bool read = true;
  bool write = true;
  bool resumed = false;
  bool cut_off = false;  // held tokens at a flush
  int64_t recompute = 0;
  TokenVector tokens;
  std::vector<TwinBlockPtr> blocks;  // an open one has an empty prefix
  int64_t cached_tokens = 0;
};

class Twin {
 public:
  Twin(int64_t capacity, const KvLayout& layout)
      : block_(layout.block_tokens),
        piece_(layout.PieceTokens()),
        per_block_(layout.PiecesPerBlock()),
        capacity_(capacity) {}

  void Open(TwinLease& lease, const TokenVector& known) {
    if (lease.read && !lease.resumed) {
      counters.lookup_tokens += static_cast<int64_t>(known.size());
    }
    if (lease.read) Extend(lease, known);
  }

  int64_t Extend(TwinLease& lease, const TokenVector& known) {
    int64_t gained = 0;
    if (!lease.read || lease.cut_off) return 0;
    if (lease.tokens.size() % block_ != 0) return 0;
    if (!lease.blocks.empty() && !lease.blocks.back()->findable) return 0;
    while (lease.tokens.size() + block_ < known.size()) {
      const size_t end = lease.tokens.size() + block_;
      const auto found = findable_.find(PrefixOf(lease, known, end));
      if (found == findable_.end()) break;
      ++found->second->pins;
      lease.blocks.push_back(found->second);
      lease.tokens.assign(known.begin(), known.begin() + end);
      gained += block_;
    }
    lease.cached_tokens += gained;
    if (!lease.resumed) counters.hit_tokens += gained;
    return gained;
  }

  // Evicts until `wanted` pieces are free; the order of what goes is LRU.
  void MakeRoom(int64_t wanted) {
    while (Free() < wanted && !testing::Test::HasFatalFailure()) {
      EvictOne();
      ++counters.evicted[EvictionCause::kCapacity];
    }
  }

  void EvictOne() {
    auto victim = findable_.end();
    for (auto it = findable_.begin(); it != findable_.end(); ++it) {
      if (it->second->pins > 0 || HasChild(it->first)) continue;
      if (victim == findable_.end() ||
          it->second->last_use < victim->second->last_use) {
        victim = it;
      }
    }
    ASSERT_NE(victim, findable_.end()) << "the twin has nothing to evict";
    findable_.erase(victim);
    used_ -= per_block_;
  }

  void Append(TwinLease& lease, const TokenVector& tokens) {
    for (const TokenId token : tokens) {
      if (lease.tokens.size() % block_ == 0) {
        lease.blocks.push_back(std::make_shared<TwinBlock>());
        lease.blocks.back()->pins = 1;
      }
      if (lease.tokens.size() % piece_ == 0) ++used_;
      if (lease.resumed &&
          static_cast<int64_t>(lease.tokens.size()) < lease.recompute) {
        ++counters.recomputed_tokens;
      }
      lease.tokens.push_back(token);
      ++lease.blocks.back()->tokens;
      if (lease.tokens.size() % block_ == 0) Seal(lease);
    }
  }

  void End(TwinLease& lease) {
    ++tick_;
    for (const TwinBlockPtr& block : lease.blocks) {
      if (--block->pins > 0) continue;
      if (block->findable) {
        block->last_use = tick_;
      } else {
        used_ -= (block->tokens + piece_ - 1) / piece_;
      }
    }
  }

  void Flush() {
    for (auto& [prefix, block] : findable_) {
      block->findable = false;
      if (block->pins == 0) {
        used_ -= per_block_;
        ++counters.evicted[EvictionCause::kFlush];
      }
    }
    findable_.clear();
  }

  void SetCapacity(int64_t capacity) { capacity_ = capacity; }

  // A slice of a resize evicts until all that is held fits.
  void Shrink() {
    while (UsedBlocks() > capacity_ && Cached() > 0 &&
           !testing::Test::HasFatalFailure()) {
      EvictOne();
      ++counters.evicted[EvictionCause::kResize];
    }
  }

  // What a step may get; what is held beyond the capacity is not there to get.
  // Counted in pieces, but for those that say so.
  int64_t Free() const {
    return std::max<int64_t>(capacity_ * per_block_ - used_, 0);
  }
  int64_t Used() const { return used_; }
  int64_t Pinned() const { return used_ - Cached() * per_block_; }
  int64_t UsedBlocks() const {
    return (used_ + per_block_ - 1) / per_block_;  // with all tails together
  }
  int64_t PinnedBlocks() const { return UsedBlocks() - Cached(); }
  int64_t Capacity() const { return capacity_; }
  int64_t Cached() const {
    int64_t cached = 0;
    for (const auto& [prefix, block] : findable_) cached += block->pins == 0;
    return cached;
  }
  int64_t Findable() const { return static_cast<int64_t>(findable_.size()); }

  // Tokens in memory that a version has computed; `leases` are all there are.
  int64_t Tokens(const std::string& fingerprint,
                 const std::vector<const TwinLease*>& leases) const {
    std::set<const TwinBlock*> blocks;
    for (const auto& [prefix, block] : findable_) {
      if (std::get<0>(prefix) == fingerprint) blocks.insert(block.get());
    }
    for (const TwinLease* lease : leases) {
      if (lease->fingerprint != fingerprint) continue;
      for (const TwinBlockPtr& block : lease->blocks) blocks.insert(&*block);
    }
    int64_t tokens = 0;
    for (const TwinBlock* block : blocks) tokens += block->tokens;
    return tokens;
  }

  CacheCounters counters;

 private:
  static Prefix PrefixOf(const TwinLease& lease, const TokenVector& tokens,
                         size_t end) {
    return {lease.fingerprint, lease.salt,
            TokenVector(tokens.begin(), tokens.begin() + end)};
  }

  bool HasChild(const Prefix& parent) const {
    const TokenVector& tokens = std::get<2>(parent);
    for (const auto& [prefix, block] : findable_) {
      const TokenVector& other = std::get<2>(prefix);
      if (std::get<0>(prefix) == std::get<0>(parent) &&
          std::get<1>(prefix) == std::get<1>(parent) &&
          other.size() == tokens.size() + block_ &&
          std::equal(tokens.begin(), tokens.end(), other.begin())) {
        return true;
      }
    }
    return false;
  }

  void Seal(TwinLease& lease) {
    const size_t index = lease.blocks.size() - 1;
    if (lease.cut_off || (!lease.read && !lease.write)) return;
    if (index > 0 && !lease.blocks[index - 1]->findable) return;
    const Prefix prefix = PrefixOf(lease, lease.tokens, lease.tokens.size());
    const auto same = findable_.find(prefix);
    if (same != findable_.end()) {
      lease.blocks[index] = same->second;
      ++same->second->pins;
      used_ -= per_block_;
      ++counters.deduplicated_blocks;
    } else if (lease.write) {
      lease.blocks[index]->prefix = prefix;
      lease.blocks[index]->findable = true;
      findable_[prefix] = lease.blocks[index];
      ++counters.inserted_blocks;
    }
  }

  const int64_t block_;
  const int64_t piece_;
  const int64_t per_block_;
  int64_t capacity_;  // blocks
  int64_t used_ = 0;  // pieces
  int64_t tick_ = 0;
  std::map<Prefix, TwinBlockPtr> findable_;
};

struct Pair {
  Lease lease;
  TwinLease twin;
  TokenVector known;  // what the sequence wants to compute in the end
};

// What a step would compute for the last of `tokens`: a number that depends on
// everything the keys and values of that place depend on.
uint64_t Content(const TwinLease& lease, absl::Span<const TokenId> tokens) {
  uint64_t hash = std::hash<std::string>()(lease.fingerprint) * 31 +
                  std::hash<std::string>()(lease.salt);
  for (const TokenId token : tokens) hash = hash * 0x9E3779B97F4A7C15u + token;
  return hash;
}

// A token's key is its content, its value the complement.
void Write(const BlockTableView& table, const KvLayout& layout, int64_t token,
           uint64_t content) {
  const auto place = table.At(layout, token);
  uint32_t halves[2];
  std::memcpy(halves, &content, sizeof(content));
  for (int64_t d = 0; d < 2; ++d) {
    std::byte* keys = place.block + layout.KeyOffset(0, 0);
    std::memcpy(keys + (d * layout.block_tokens + place.slot) * 4, &halves[d],
                4);
  }
  const uint64_t value = ~content;
  std::memcpy(place.block + layout.ValueOffset(0, 0) + place.slot * 8, &value,
              8);
}

void ExpectContent(const BlockTableView& table, const KvLayout& layout,
                   int64_t token, uint64_t content) {
  const auto place = table.At(layout, token);
  uint32_t halves[2];
  for (int64_t d = 0; d < 2; ++d) {
    const std::byte* keys = place.block + layout.KeyOffset(0, 0);
    std::memcpy(&halves[d], keys + (d * layout.block_tokens + place.slot) * 4,
                4);
  }
  uint64_t key, value;
  std::memcpy(&key, halves, sizeof(key));
  std::memcpy(&value, place.block + layout.ValueOffset(0, 0) + place.slot * 8,
              8);
  ASSERT_EQ(key, content) << "the key of token " << token;
  ASSERT_EQ(value, ~content) << "the value of token " << token;
}

// Blocks of one piece, of two and of four.
constexpr int32_t kBlockTokens[] = {4, 8, 16};

class RandomCacheTest : public testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kBlocks = 28;
  static constexpr int kOperations = 4000;

  void SetUp() override {
    std::cout << "seed " << GetParam() << "\n";
    random_.seed(GetParam());
    KvCache::Options options = SmallOptions(kBlocks, layout_.block_tokens);
    options.index_hash_bits = hash_bits();
    options.address_space_blocks = 2 * kBlocks;
    options.resize_slice_bytes = 3 * options.layout.BlockBytes();
    cache_ = MakeCache(options);
    for (const char* fingerprint : {"aa", "bb"}) {
      versions_.push_back(cache_->AddVersion(fingerprint, fingerprint));
    }
  }

  int32_t hash_bits() const { return GetParam() % 2 == 0 ? 64 : 2; }

  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random_);
  }

  TokenVector RandomTokens() {
    // Two tokens and few lengths, so that prefixes are often shared.
    TokenVector tokens(1 + Draw(7 * layout_.block_tokens + 2));
    for (TokenId& token : tokens) token = Draw(8) == 0;
    return tokens;
  }

  void OpenOne() {
    if (pairs_.size() >= 6) return;
    Pair pair;
    const int version = Draw(2);
    pair.twin.fingerprint = version == 0 ? "aa" : "bb";
    pair.twin.salt = Draw(3) == 0 ? "tenant" : "";
    pair.twin.read = Draw(5) > 0;
    pair.twin.write = Draw(5) > 0;
    pair.known = RandomTokens();
    Lease lease = Open(*cache_, {.version = versions_[version],
                                 .tokens = pair.known,
                                 .salt = pair.twin.salt,
                                 .read_cache = pair.twin.read,
                                 .write_cache = pair.twin.write});
    pair.lease = std::move(lease);
    twin_.Open(pair.twin, pair.known);
    pairs_.push_back(std::move(pair));
  }

  // A preemption: the lease ends and the same sequence comes back.
  void Resume() {
    if (pairs_.empty()) return;
    Pair& pair = pairs_[Draw(pairs_.size())];
    TwinLease again = pair.twin;
    again.resumed = true;
    again.cut_off = false;
    again.recompute = static_cast<int64_t>(pair.twin.tokens.size());
    again.tokens.clear();
    again.blocks.clear();
    again.cached_tokens = 0;
    const VersionId version = pair.lease.version();
    pair.lease = Lease();
    twin_.End(pair.twin);
    pair.twin = again;
    pair.lease = Open(*cache_, {.version = version,
                                .tokens = pair.known,
                                .salt = again.salt,
                                .read_cache = again.read,
                                .write_cache = again.write,
                                .resumed = true,
                                .recompute_tokens = again.recompute});
    twin_.Open(pair.twin, pair.known);
  }

  void Step() {
    std::vector<Pair*> chosen;
    std::vector<TokenVector> parts;
    int64_t room = cache_->Capacity().available_pieces();
    for (Pair& pair : pairs_) {
      if (Draw(3) == 0) continue;
      const size_t done = pair.twin.tokens.size();
      if (done == pair.known.size()) pair.known.push_back(Draw(2));
      const size_t count = std::min<size_t>(pair.known.size() - done,
                                            1 + Draw(3 * layout_.block_tokens));
      const int64_t pieces = cache_->PiecesNeeded(pair.lease, count);
      if (pieces > room) continue;
      room -= pieces;
      chosen.push_back(&pair);
      parts.emplace_back(pair.known.begin() + done,
                         pair.known.begin() + done + count);
    }
    std::vector<LeaseGrowth> growths;
    int64_t pieces = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      growths.push_back({.lease = &chosen[i]->lease, .tokens = parts[i]});
      pieces += cache_->PiecesNeeded(chosen[i]->lease, parts[i].size());
    }
    Reservation reservation = cache_->Reserve(growths);
    twin_.MakeRoom(pieces);
    CheckBytes(twin_.Used() + pieces);
    ASSERT_THAT(cache_->Violations(), testing::IsEmpty());
    for (size_t i = 0; i < chosen.size(); ++i) {
      Compute(*chosen[i], parts[i].size(), reservation.Table(i));
    }
    if (Draw(6) == 0) return;  // the step failed
    std::move(reservation).Commit();
    for (size_t i = 0; i < chosen.size(); ++i) {
      twin_.Append(chosen[i]->twin, parts[i]);
    }
  }

  void Compute(const Pair& pair, size_t count, const BlockTableView& table) {
    const size_t done = pair.twin.tokens.size();
    for (size_t end = done + 1; end <= done + count; ++end) {
      const uint64_t content =
          Content(pair.twin, absl::MakeConstSpan(pair.known).subspan(0, end));
      Write(table, layout_, static_cast<int64_t>(end) - 1, content);
    }
  }

  void ExtendOne() {
    if (pairs_.empty()) return;
    Pair& pair = pairs_[Draw(pairs_.size())];
    ASSERT_EQ(cache_->ExtendLease(pair.lease, pair.known),
              twin_.Extend(pair.twin, pair.known));
  }

  void EndOne() {
    if (pairs_.empty()) return;
    const int index = Draw(pairs_.size());
    twin_.End(pairs_[index].twin);
    pairs_.erase(pairs_.begin() + index);
  }

  void Flush() {
    const int64_t cached = twin_.Cached();
    ASSERT_EQ(cache_->Flush().freed_blocks, cached);
    twin_.Flush();
    for (Pair& pair : pairs_) {
      pair.twin.cut_off |= !pair.twin.tokens.empty();
    }
  }

  // Up, down, called off or turned round half-way, with whatever is held.
  void SetTarget() {
    const int64_t target = 2 + Draw(2 * kBlocks - 1);
    ASSERT_TRUE(cache_->SetTarget(target).ok());
    grows_to_ = target;
    twin_.SetCapacity(std::min(target, cache_->resize().block_count));
  }

  void ContinueResize() {
    const int64_t before = cache_->resize().block_count;
    const bool shrinks = grows_to_ < before;
    const bool stuck = twin_.PinnedBlocks() > grows_to_;
    ASSERT_TRUE(cache_->ContinueResize().ok());
    const ResizeProgress progress = cache_->resize();
    ASSERT_EQ(progress.target_blocks, grows_to_);
    ASSERT_EQ(progress.waiting_blocks > 0, stuck);
    if (shrinks) {
      twin_.Shrink();
      if (!stuck) {
        ASSERT_LT(progress.block_count, before);
      }
    } else {
      ASSERT_EQ(progress.block_count, std::min(before + 3, grows_to_));
      twin_.SetCapacity(progress.block_count);
    }
  }

  // What is not free is used, to the byte, and where no step is in hand that
  // is tokens and fragmentation; also of each version.
  void CheckBytes(int64_t used_pieces) {
    const CacheSnapshot snapshot = cache_->Snapshot();
    const TierSnapshot& tier = snapshot.tiers[0];
    const ByteAccount& bytes = tier.bytes;
    const int64_t piece = tier.block_bytes / layout_.PiecesPerBlock();
    std::vector<const TwinLease*> leases;
    for (const Pair& pair : pairs_) leases.push_back(&pair.twin);
    ASSERT_EQ(bytes.free + bytes.leaving,
              tier.capacity_bytes - used_pieces * piece);
    ASSERT_EQ(tier.blocks.total() * tier.block_bytes, tier.capacity_bytes);
    int64_t tokens = 0;
    for (const VersionSnapshot& version : snapshot.versions) {
      const int64_t own = twin_.Tokens(version.fingerprint, leases);
      ASSERT_EQ(version.bytes.tokens, own * layout_.TokenBytes());
      tokens += own;
    }
    ASSERT_EQ(bytes.tokens, tokens * layout_.TokenBytes());
  }

  void CheckAgainstTwin() {
    ASSERT_THAT(cache_->Violations(), testing::IsEmpty());
    const CacheSnapshot snapshot = cache_->Snapshot();
    const CapacityView capacity = cache_->Capacity();
    const int64_t all = twin_.Capacity() * layout_.PiecesPerBlock();
    CheckBytes(twin_.Used());
    ASSERT_EQ(snapshot.tiers[0].bytes.reserved, 0);
    ASSERT_EQ(capacity.total_blocks, twin_.Capacity());
    ASSERT_EQ(capacity.free_pieces, twin_.Free());
    ASSERT_EQ(capacity.available_pieces(),
              std::max<int64_t>(all - twin_.Pinned(), 0));
    ASSERT_GE(UsedBlocks(*cache_), twin_.UsedBlocks());
    ASSERT_EQ(cache_->resize().pinned_blocks, twin_.PinnedBlocks());
    scattered_ |= UsedBlocks(*cache_) > twin_.UsedBlocks();
    ASSERT_EQ(snapshot.tiers[0].blocks.cached, twin_.Cached());
    ASSERT_EQ(snapshot.index_entries, twin_.Findable());
    const CacheCounters& counters = snapshot.counters;
    ASSERT_EQ(counters.lookup_tokens, twin_.counters.lookup_tokens);
    ASSERT_EQ(counters.hit_tokens, twin_.counters.hit_tokens);
    ASSERT_EQ(counters.recomputed_tokens, twin_.counters.recomputed_tokens);
    ASSERT_EQ(counters.inserted_blocks, twin_.counters.inserted_blocks);
    ASSERT_EQ(counters.deduplicated_blocks, twin_.counters.deduplicated_blocks);
    ASSERT_EQ(counters.evicted[EvictionCause::kCapacity],
              twin_.counters.evicted[EvictionCause::kCapacity]);
    ASSERT_EQ(counters.evicted[EvictionCause::kFlush],
              twin_.counters.evicted[EvictionCause::kFlush]);
    ASSERT_EQ(counters.evicted[EvictionCause::kResize],
              twin_.counters.evicted[EvictionCause::kResize]);
    for (const Pair& pair : pairs_) CheckLease(pair);
  }

  // Every place that a lease holds has the content of its own prefix.
  void CheckLease(const Pair& pair) {
    ASSERT_EQ(pair.lease.token_count(),
              static_cast<int64_t>(pair.twin.tokens.size()));
    ASSERT_EQ(pair.lease.cached_token_count(), pair.twin.cached_tokens);
    const BlockTableView table = pair.lease.Table();
    for (size_t end = 1; end <= pair.twin.tokens.size(); ++end) {
      ExpectContent(
          table, layout_, static_cast<int64_t>(end) - 1,
          Content(pair.twin,
                  absl::MakeConstSpan(pair.twin.tokens).subspan(0, end)));
    }
  }

  const KvLayout layout_ =
      SmallLayout(kBlockTokens[GetParam() % std::size(kBlockTokens)]);
  std::mt19937 random_;
  std::unique_ptr<KvCache> cache_;
  std::vector<VersionId> versions_;
  std::vector<Pair> pairs_;
  Twin twin_{kBlocks, layout_};
  int64_t grows_to_ = kBlocks;
  bool scattered_ = false;  // tails took more blocks than they need
};

TEST_P(RandomCacheTest, AgreesWithTheTwinAfterEveryOperation) {
  // The parts are right one by one; what goes wrong in a cache is their play.
  for (int i = 0; i < kOperations && !HasFatalFailure(); ++i) {
    const int operation = Draw(100);
    if (operation < 20) {
      OpenOne();
    } else if (operation < 70) {
      Step();
    } else if (operation < 80) {
      ExtendOne();
    } else if (operation < 94) {
      EndOne();
    } else if (operation < 98) {
      Resume();
    } else if (operation < 99) {
      Flush();
    } else {
      SetTarget();
    }
    if (Draw(3) == 0) ContinueResize();
    CheckAgainstTwin();
  }
  const CacheCounters counters = cache_->Snapshot().counters;
  EXPECT_GT(counters.hit_tokens, 0);
  EXPECT_GT(counters.recomputed_tokens, 0);
  EXPECT_GT(counters.deduplicated_blocks, 0);
  EXPECT_GT(counters.evicted[EvictionCause::kCapacity], 0);
  EXPECT_GT(counters.evicted[EvictionCause::kResize], 0);
  EXPECT_GT(counters.relocated_blocks, 0);
  EXPECT_EQ(counters.rejected_collisions > 0, hash_bits() < 64);
  EXPECT_EQ(scattered_, layout_.PiecesPerBlock() > 1);
  pairs_.clear();
  cache_->Flush();
  EXPECT_EQ(UsedBlocks(*cache_), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCacheTest, testing::Range(1, 13));

}  // namespace
}  // namespace kvasir
