// Retention as a whole, through the cache's front door: who is evicted first,
// who never is, and what may still be counted on.

#include "cache/retention_book.h"

#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;
using TokenVector = std::vector<TokenId>;

constexpr int64_t B = kSmallBlock;
constexpr absl::Duration kForever = absl::InfiniteDuration();

class RetentionTest : public testing::Test {
 protected:
  explicit RetentionTest(int64_t blocks = 32)
      : cache_(MakeCache(SmallOptions(blocks))),
        version_(cache_->AddVersion("m", "aa")) {}

  // A request with that prompt from its start to its end.
  void Serve(const TokenVector& prompt,
             const std::optional<Retention>& retention = {},
             const std::string& salt = "", VersionId version = VersionId()) {
    LeaseRequest request{.version = version.valid() ? version : version_,
                         .tokens = prompt,
                         .salt = salt,
                         .retention = retention};
    Lease lease = Open(*cache_, request);
    Append(*cache_, lease,
           absl::MakeConstSpan(prompt).subspan(lease.token_count()));
  }

  // Blocks of the prompt that are cached, from its start on.
  int64_t Resident(const TokenVector& prompt, const std::string& salt = "",
                   VersionId version = VersionId()) {
    const auto found =
        cache_->FindPrefix({.version = version.valid() ? version : version_,
                            .purpose = LeasePurpose::kWarm,
                            .tokens = prompt,
                            .salt = salt});
    return found.ok() ? found->block_count : 0;
  }

  BlockKey KeyOf(const TokenVector& prompt, const std::string& salt = "") {
    const auto found = cache_->FindPrefix(
        {.version = version_, .tokens = prompt, .salt = salt});
    EXPECT_TRUE(found.ok()) << found.status();
    return found->key;
  }

  // One-off prompts of `blocks` blocks each that have nothing in common.
  void Flood(int count, int64_t blocks = 2, const std::string& salt = "") {
    for (int i = 0; i < count; ++i) {
      Serve(Tokens(next_one_off_, blocks * B), {}, salt);
      next_one_off_ += 1000;
    }
  }

  void Pin(const TokenVector& prompt, absl::Duration until = kForever) {
    const auto pinned = cache_->PinPrefix(KeyOf(prompt), until);
    EXPECT_TRUE(pinned.ok()) << pinned.status();
  }

  std::unique_ptr<KvCache> cache_;
  VersionId version_;
  TokenId next_one_off_ = 1000000;
};

TEST_F(RetentionTest, PriorityComesBeforeThePolicy) {
  // A system prompt of priority 80 that nobody has asked for in a while is
  // worth more than yesterday's one-off questions.
  const TokenVector dear = Tokens(0, 4 * B);
  const TokenVector cheap = Tokens(100, 4 * B);
  Serve(dear, Retention{.priority = 80});
  Serve(cheap, Retention{.priority = 20});
  Flood(12, 2);  // 24 blocks: the cache is full now
  EXPECT_EQ(Resident(cheap), 4);
  Flood(2, 2);
  EXPECT_EQ(Resident(cheap), 0) << "before what has the default";
  Flood(40, 2);
  EXPECT_EQ(Resident(dear), 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, AWishRaisesWhatOthersShareAndNeverLowersIt) {
  // A tenant's throw-away request must not make the shared prompt one.
  const TokenVector shared = Tokens(0, 4 * B);
  Serve(shared, Retention{.priority = 80, .ttl = absl::Hours(1)});
  TokenVector longer = shared;
  for (const TokenId token : Tokens(50, 2 * B)) longer.push_back(token);
  Serve(longer, Retention{.priority = 5, .ttl = absl::Seconds(1)});
  const auto info = cache_->FindPrefix(KeyOf(shared));
  EXPECT_EQ(info->retention,
            (Retention{.priority = 80, .ttl = absl::Hours(1)}));
  EXPECT_EQ(cache_->FindPrefix(KeyOf(longer))->retention.priority, 5);
  Serve(longer, Retention{.priority = 60, .ttl = absl::Minutes(1)});
  EXPECT_EQ(cache_->FindPrefix(KeyOf(longer))->retention,
            (Retention{.priority = 60, .ttl = absl::Minutes(1)}));
}

TEST_F(RetentionTest, APrefixIsDroppedWhenItsTimeIsOver) {
  // From the last lease that held it on, each of which begins it anew.
  const TokenVector prompt = Tokens(0, 4 * B);
  cache_->Advance(absl::Seconds(100));
  Serve(prompt, Retention{.ttl = absl::Seconds(10)});
  cache_->Advance(absl::Seconds(109));
  EXPECT_EQ(Resident(prompt), 4);
  Serve(prompt);
  cache_->Advance(absl::Seconds(111));
  EXPECT_EQ(Resident(prompt), 4) << "somebody asked for it";
  {
    const Lease running = Open(*cache_, version_, prompt);
    cache_->Advance(absl::Seconds(500));
    // But for the block of the last token, which a lease computes anew.
    EXPECT_EQ(Resident(prompt), 3) << "somebody holds it";
  }
  EXPECT_EQ(cache_->FindPrefix(KeyOf(prompt))->expires, absl::Seconds(510));
  cache_->Advance(absl::Seconds(510));
  EXPECT_EQ(Resident(prompt), 0);
  EXPECT_EQ(cache_->Snapshot().counters.evicted[EvictionCause::kTtl], 4);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, WhatOthersAreFoundThroughOutlivesItsTime) {
  // Or a long conversation would be cut off from its beginning.
  const TokenVector start = Tokens(0, 2 * B);
  const TokenVector whole = Tokens(0, 4 * B);
  Serve(start, Retention{.ttl = absl::Seconds(10)});
  Serve(whole);
  cache_->Advance(absl::Seconds(20));
  EXPECT_EQ(Resident(whole), 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  // Once it has no more use it is the first to go.
  cache_->Advance(absl::Seconds(21));
  EXPECT_TRUE(cache_->EvictPrefixes({{KeyOf(whole)}}, false).ok());
  Flood(15, 2);
  EXPECT_EQ(Resident(start), 0);
}

TEST_F(RetentionTest, AFloodLeavesPinnedAndDearPrefixesWhole) {
  // Five thousand one-off prompts against a pinned prefix and a warmed one.
  const TokenVector pinned = Tokens(0, 8 * B);
  const TokenVector warmed = Tokens(100, 6 * B);
  Serve(pinned);
  Pin(pinned);
  Serve(warmed, Retention{.priority = 90});
  Flood(5000, 3);
  EXPECT_EQ(Resident(pinned), 8);
  EXPECT_EQ(Resident(warmed), 6);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, PinnedBlocksAreNotCountedOn) {
  // The scheduler plans with what Capacity() says, and Reserve() on a valid
  // plan cannot fail.
  const TokenVector pinned = Tokens(0, 20 * B);
  Serve(pinned);
  Pin(pinned);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 12);
  EXPECT_EQ(cache_->PinnedPrefixBlocks(), 20);
  EXPECT_EQ(cache_->KeptBlocks(32), 20);
  Lease lease = Open(*cache_, version_, Tokens(500, 12 * B));
  Append(*cache_, lease, Tokens(500, 12 * B));
  EXPECT_EQ(cache_->Capacity().available_blocks(), 0);
  {
    // Held by a lease as well, they are counted once.
    const Lease same = Open(*cache_, version_, pinned);
    EXPECT_EQ(cache_->Capacity().available_blocks(), 0);
    EXPECT_EQ(cache_->PinnedPrefixBlocks(), 20);
  }
  EXPECT_TRUE(cache_->UnpinPrefix(KeyOf(pinned)).ok());
  EXPECT_EQ(cache_->Capacity().available_blocks(), 20);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, PinsMayNotKeepTooMuch) {
  // A daemon that pins its whole pool serves nobody any more.
  const TokenVector first = Tokens(0, 20 * B);
  const TokenVector second = Tokens(500, 6 * B);
  Serve(first);
  Pin(first);
  Pin(first);  // again: it is one pin
  Serve(second);
  const auto refused = cache_->PinPrefix(KeyOf(second), kForever);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(refused.status().message(), "24 blocks"))
      << refused.status();
  EXPECT_TRUE(cache_->UnpinPrefix(KeyOf(first)).ok());
  EXPECT_EQ(cache_->UnpinPrefix(KeyOf(first)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Pin(second);
  EXPECT_EQ(cache_->PinPrefix(BlockKey{}, kForever).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RetentionTest, APinEndsAtItsTime) {
  const TokenVector prompt = Tokens(0, 8 * B);
  Serve(prompt);
  cache_->Advance(absl::Seconds(100));
  Pin(prompt, absl::Seconds(200));
  cache_->Advance(absl::Seconds(199));
  EXPECT_TRUE(cache_->FindPrefix(KeyOf(prompt))->pinned);
  cache_->Advance(absl::Seconds(200));
  EXPECT_FALSE(cache_->FindPrefix(KeyOf(prompt))->pinned);
  Flood(20, 2);
  EXPECT_EQ(Resident(prompt), 0);
}

TEST_F(RetentionTest, APinLeavesRoomForWhoRuns) {
  // It was promised its tokens before; a pin must not end it in mid-stream.
  const TokenVector prompt = Tokens(0, 10 * B);
  Serve(prompt);
  {
    const Lease running =
        Open(*cache_, {.version = version_, .most_tokens = 24 * B});
    const auto refused = cache_->PinPrefix(KeyOf(prompt), kForever);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(absl::StrContains(refused.status().message(), "8 blocks"))
        << refused.status();
  }
  Pin(prompt);
}

TEST_F(RetentionTest, PinnedPrefixesNeedNoRoomToBeShared) {
  // Admission would let those wait whom the pin is for.
  const TokenVector prompt = Tokens(0, 20 * B);
  Serve(prompt);
  EXPECT_EQ(cache_->CountSharedBlocks({.version = version_, .tokens = prompt}),
            0);
  Pin(prompt);
  EXPECT_EQ(cache_->CountSharedBlocks({.version = version_, .tokens = prompt}),
            19);
  EXPECT_EQ(cache_->KeptBlocksAtRest(32), 20);
  const Lease lease = Open(*cache_, version_, prompt);
  EXPECT_EQ(cache_->PinnedPrefixBlocks(lease), 19);
  EXPECT_EQ(cache_->KeptBlocksAtRest(32), 1) << "what leases hold is not";
  EXPECT_EQ(cache_->KeptBlocks(32), 20);
}

TEST_F(RetentionTest, AnExpiredPrefixGoesWhenWhatNeededItHasGone) {
  // Not only if that goes for the same reason.
  const TokenVector start = Tokens(0, 2 * B);
  const TokenVector whole = Tokens(0, 4 * B);
  Serve(start, Retention{.ttl = absl::Seconds(10)});
  Serve(whole);
  Pin(start, absl::Seconds(40));
  cache_->Advance(absl::Seconds(20));
  EXPECT_TRUE(cache_->EvictPrefixes({{KeyOf(whole)}}, false).ok());
  cache_->Advance(absl::Seconds(30));
  EXPECT_EQ(Resident(start), 2) << "the pin";
  cache_->Advance(absl::Seconds(40));
  cache_->Advance(absl::Seconds(41));
  EXPECT_EQ(Resident(start), 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, ANoisyNeighbourStopsAtTheFloor) {
  // Ten requests of one tenant for each of the other's: LRU alone would leave
  // the quiet one nothing.
  ASSERT_TRUE(cache_->SetTenantQuota("quiet", {.floor_blocks = 10}).ok());
  const TokenVector a = Tokens(0, 5 * B);
  const TokenVector b = Tokens(100, 5 * B);
  const TokenVector c = Tokens(200, 5 * B);
  for (const TokenVector& prompt : {a, b, c}) Serve(prompt, {}, "quiet");
  for (int round = 0; round < 50; ++round) {
    Flood(10, 2, "noisy");
    const int64_t left =
        Resident(a, "quiet") + Resident(b, "quiet") + Resident(c, "quiet");
    // 15 and 20 are 3 too many at first.
    EXPECT_EQ(left, round == 0 ? 12 : 10) << round;
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  }
  EXPECT_EQ(cache_->KeptBlocks(32), 10);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 22);
}

TEST_F(RetentionTest, ATenantKeepsNoMoreThanItsMost) {
  ASSERT_TRUE(cache_->SetTenantQuota("greedy", {.max_blocks = 6}).ok());
  Serve(Tokens(0, 4 * B));
  Flood(5, 4, "greedy");
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 10) << "free blocks or not";
  EXPECT_EQ(cache_->Snapshot().counters.evicted[EvictionCause::kQuota], 14);
  {
    // A running request gets what it needs.
    const TokenVector prompt = Tokens(0, 20 * B);
    const Lease lease = OpenAndFill(*cache_, version_, prompt, "greedy");
    EXPECT_EQ(lease.block_count(), 20);
  }
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 10);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, QuotasCountWhatIsThereAlready) {
  Flood(5, 4, "late");
  ASSERT_TRUE(cache_->SetTenantQuota("late", {.max_blocks = 6}).ok());
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 6);
  ASSERT_TRUE(
      cache_->SetTenantQuota("late", {.floor_blocks = 4, .max_blocks = 6})
          .ok());
  Flood(30, 2);
  EXPECT_EQ(cache_->Prefixes({.salt = "late"}).size(), 1u);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 32);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, QuotasThatMakeNoSenseAreRefused) {
  EXPECT_EQ(cache_->SetTenantQuota("a", {.floor_blocks = -1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      cache_->SetTenantQuota("a", {.floor_blocks = 5, .max_blocks = 4}).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->SetTenantQuota("a", {.floor_blocks = 25}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(cache_->SetTenantQuota("a", {.floor_blocks = 20}).ok());
  EXPECT_EQ(cache_->SetTenantQuota("b", {.floor_blocks = 5}).code(),
            absl::StatusCode::kResourceExhausted)
      << "floors together";
  EXPECT_TRUE(cache_->SetTenantQuota("a", {.floor_blocks = 19}).ok());
  EXPECT_TRUE(cache_->SetTenantQuota("b", {.floor_blocks = 5}).ok());
  for (int64_t i = 2; i < kMaxQuotaTenants; ++i) {
    EXPECT_TRUE(cache_->SetTenantQuota(absl::StrCat(i), {}).ok());
  }
  EXPECT_EQ(cache_->SetTenantQuota("one more", {}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(RetentionTest, FloorsShrinkWithThePool) {
  // A smaller pool must still serve; floors take their share of it.
  ASSERT_TRUE(cache_->SetTenantQuota("t", {.floor_blocks = 24}).ok());
  Flood(12, 2, "t");
  ASSERT_TRUE(cache_->SetTarget(16).ok());
  while (!cache_->resize().done()) {
    ASSERT_TRUE(cache_->ContinueResize().ok());
  }
  EXPECT_EQ(cache_->KeptBlocks(16), 12);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  Flood(20, 2);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 16);
}

TEST_F(RetentionTest, AShrinkBelowPinnedPrefixesIsRefused) {
  const TokenVector prompt = Tokens(0, 10 * B);
  Serve(prompt);
  Pin(prompt);
  EXPECT_EQ(cache_->CheckTarget(10).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(cache_->CheckTarget(11).ok());
  ASSERT_TRUE(cache_->SetTarget(11).ok());
  while (!cache_->resize().done()) {
    ASSERT_TRUE(cache_->ContinueResize().ok());
  }
  EXPECT_EQ(Resident(prompt), 10) << "wherever it lies now";
  EXPECT_TRUE(cache_->FindPrefix(KeyOf(prompt))->pinned);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 1);
}

TEST_F(RetentionTest, ASupersededVersionLosesItsBlocksFirst) {
  // Pinned or dear: what serves comes first. And what serves keeps its pins.
  const VersionId next = cache_->AddVersion("next", "bb");
  const TokenVector old_pinned = Tokens(0, 6 * B);
  const TokenVector old_dear = Tokens(100, 4 * B);
  const TokenVector own = Tokens(200, 4 * B);
  Serve(old_pinned);
  Pin(old_pinned);
  Serve(old_dear, Retention{.priority = 100});
  Serve(own, Retention{.priority = 1}, "", next);
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kDraining).ok());
  EXPECT_EQ(cache_->PinnedPrefixBlocks(), 0);
  const VersionId old = std::exchange(version_, next);
  Flood(10, 2);  // 34 blocks in 32
  EXPECT_EQ(Resident(own), 4);
  EXPECT_EQ(Resident(old_dear, "", old), 2);
  EXPECT_EQ(Resident(old_pinned, "", old), 6) << "the last of it";
  Flood(4, 2);
  EXPECT_EQ(cache_->Prefixes({.version = old}).size(), 0u);
  EXPECT_EQ(Resident(own), 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, ARollbackFindsThePinsAgain) {
  const TokenVector prompt = Tokens(0, 6 * B);
  Serve(prompt);
  Pin(prompt);
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kDraining).ok());
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kServing).ok());
  EXPECT_EQ(cache_->PinnedPrefixBlocks(), 6);
  Flood(100, 3);
  EXPECT_EQ(Resident(prompt), 6);
}

TEST_F(RetentionTest, AVersionKeepsNoMoreThanItsQuota) {
  const VersionId small = cache_->AddVersion("small", "bb");
  cache_->SetVersionQuota(small, 5);
  Serve(Tokens(0, 4 * B));
  for (int i = 0; i < 6; ++i) Serve(Tokens(100 * i, 3 * B), {}, "", small);
  const CacheSnapshot snapshot = cache_->Snapshot();
  EXPECT_EQ(snapshot.versions[1].blocks.cached, 5);
  EXPECT_EQ(snapshot.versions[0].blocks.cached, 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(RetentionTest, EvictionsAreCountedByCauseAndOwner) {
  // "Who pushed my prefixes out, and why" is what operators ask first.
  const VersionId other = cache_->AddVersion("other", "bb");
  ASSERT_TRUE(cache_->SetTenantQuota("t", {.max_blocks = 4}).ok());
  Serve(Tokens(0, 6 * B), {}, "t");  // 2 over the quota
  Serve(Tokens(100, 3 * B), Retention{.ttl = absl::Seconds(1)}, "", other);
  cache_->Advance(absl::Seconds(2));  // 3 too old
  Serve(Tokens(200, 5 * B));
  EXPECT_TRUE(cache_->EvictPrefixes({{KeyOf(Tokens(200, 5 * B))}}, false).ok());
  Flood(16, 2);     // 4 of the tenant's
  cache_->Flush();  // 32
  const CacheSnapshot snapshot = cache_->Snapshot();
  const EvictionCounts& evicted = snapshot.counters.evicted;
  EXPECT_EQ(evicted[EvictionCause::kQuota], 2);
  EXPECT_EQ(evicted[EvictionCause::kTtl], 3);
  EXPECT_EQ(evicted[EvictionCause::kNamed], 5);
  EXPECT_EQ(evicted[EvictionCause::kCapacity], 4);
  EXPECT_EQ(evicted[EvictionCause::kFlush], 32);
  EXPECT_EQ(evicted.total(), 46);
  EXPECT_EQ(snapshot.versions[1].evicted.total(), 3);
  ASSERT_EQ(snapshot.tenants.size(), 1u);
  EXPECT_EQ(snapshot.tenants[0].salt, "t");
  EXPECT_EQ(snapshot.tenants[0].evicted.total(), 6);
  EXPECT_EQ(snapshot.tenants[0].evicted[EvictionCause::kCapacity], 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

// Random requests, pins, quotas, flushes and resizes: what is pinned stays,
// what Capacity() promises can be reserved, and every count adds up.
class RandomRetentionTest : public RetentionTest,
                            public testing::WithParamInterface<int> {
 protected:
  RandomRetentionTest() : RetentionTest(24) {
    std::cout << "seed " << GetParam() << "\n";
    random_.seed(GetParam());
    other_ = cache_->AddVersion("other", "bb");
  }

  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random_);
  }

  TokenVector Prompt() {
    TokenVector prompt(1 + Draw(8 * B));
    for (TokenId& token : prompt) token = Draw(8) == 0;
    return prompt;
  }

  std::string Salt() { return std::string(1, "abc"[Draw(3)]); }

  void Request() {
    const TokenVector prompt = Prompt();
    std::optional<Retention> retention;
    if (Draw(2) == 0) {
      retention = {.priority = Draw(101), .ttl = absl::Seconds(1 + Draw(40))};
    }
    LeaseRequest request{.version = Draw(3) == 0 ? other_ : version_,
                         .purpose = LeasePurpose::kHeld,
                         .tokens = prompt,
                         .salt = Salt(),
                         .retention = retention};
    // Room for all of it first, as a scheduler makes sure.
    if (cache_->Capacity().available_blocks() <
        SmallLayout().BlocksFor(prompt.size())) {
      return;
    }
    const std::string salt = Salt();
    request.salt = salt;
    Lease lease = Open(*cache_, request);
    Append(*cache_, lease,
           absl::MakeConstSpan(prompt).subspan(lease.token_count()));
    if (Draw(3) == 0) leases_.push_back(std::move(lease));
    if (leases_.size() > 3) leases_.erase(leases_.begin());
  }

  void PinOrUnpin() {
    const std::vector<PrefixInfo> all = cache_->Prefixes({});
    if (all.empty()) return;
    const PrefixInfo& info = all[Draw(all.size())];
    if (info.pinned) {
      EXPECT_TRUE(cache_->UnpinPrefix(info.key).ok());
      return;
    }
    (void)cache_->PinPrefix(
        info.key, Draw(2) == 0 ? kForever : now_ + absl::Seconds(Draw(20)));
  }

  // What Capacity() says is there, whoever asks for it.
  void TakeAll() {
    const int64_t blocks = cache_->Capacity().available_blocks();
    Lease lease = Open(*cache_, version_, {});
    const TokenVector tokens = Tokens(next_one_off_, blocks * B);
    Append(*cache_, lease, tokens);
    EXPECT_EQ(lease.block_count(), blocks);
  }

  void SetQuota() {
    if (Draw(2) == 0) {
      (void)cache_->SetTenantQuota(
          Salt(), {.floor_blocks = Draw(6), .max_blocks = Draw(3) * 8});
    } else {
      (void)cache_->SetTenantQuota(
          Salt(), {.floor_ratio = 0.05 * static_cast<double>(Draw(4)),
                   .max_ratio = 0.2 * static_cast<double>(Draw(3))});
    }
  }

  void Supersede() {
    for (const VersionId id : {version_, other_}) {
      const bool draining =
          cache_->Snapshot().versions[id.value()].state == "draining";
      if (id == version_ && !draining) continue;
      EXPECT_TRUE(cache_
                      ->MoveVersion(id, draining ? VersionState::kServing
                                                 : VersionState::kDraining)
                      .ok());
    }
  }

  void Resize() {
    const int64_t target = 8 + Draw(17);
    if (!cache_->CheckTarget(target).ok()) return;
    ASSERT_TRUE(cache_->SetTarget(target).ok());
    for (int i = 0; i < 10 && !cache_->resize().done(); ++i) {
      ASSERT_TRUE(cache_->ContinueResize().ok());
    }
  }

  std::mt19937 random_;
  VersionId other_;
  std::vector<Lease> leases_;
  absl::Duration now_;
};

TEST_P(RandomRetentionTest, KeepsItsPromises) {
  for (int turn = 0; turn < 3000; ++turn) {
    const int what = Draw(100);
    if (what < 60) {
      Request();
    } else if (what < 75) {
      PinOrUnpin();
    } else if (what < 80) {
      SetQuota();
    } else if (what < 85) {
      Supersede();
    } else if (what < 88) {
      Resize();
    } else if (what < 90) {
      TakeAll();
    } else if (what < 92) {
      leases_.clear();
    } else if (what < 93) {
      cache_->Flush();
    } else if (what < 95) {
      const PrefixFilter filter{.salt = Salt()};
      const PrefixEviction planned = cache_->EvictPrefixes(filter, true);
      const PrefixEviction done = cache_->EvictPrefixes(filter, false);
      EXPECT_EQ(planned.blocks, done.blocks) << "a dry run tells the truth";
      EXPECT_EQ(planned.kept_blocks, done.kept_blocks);
    } else {
      now_ += absl::Seconds(Draw(5));
      cache_->Advance(now_);
    }
    ASSERT_THAT(cache_->Violations(), IsEmpty()) << turn;
    const int64_t pinned = cache_->PinnedPrefixBlocks();
    const BlockCounts blocks = DeviceBlocks(*cache_);
    ASSERT_LE(pinned, blocks.pinned + blocks.cached);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRetentionTest, testing::Range(1, 9));

}  // namespace
}  // namespace kvasir
