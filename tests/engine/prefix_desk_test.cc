#include "engine/prefix_desk.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/base/status_macros.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t B = kSmallBlock;
// sha256sum of "tenant", from another program.
constexpr const char* kTenantHash = "e9da86d351cf9a76";

// Two prefixes in version "blue" of model "m", one of a tenant in "green".
class PrefixDeskTest : public testing::Test {
 protected:
  PrefixDeskTest() {
    cache_->Advance(absl::Seconds(100));
    for (const int first : {0, 100}) {
      const Lease lease = OpenAndFill(*cache_, blue_, Tokens(first, 2 * B));
    }
    const Lease lease =
        OpenAndFill(*cache_, green_, Tokens(0, 3 * B), "tenant");
  }

  PrefixDesk Desk(absl::Duration steady = absl::Seconds(130)) {
    VersionInfo blue;
    blue.id = blue_;
    blue.model = "m";
    blue.label = "blue";
    VersionInfo green = blue;
    green.id = green_;
    green.label = "green";
    return PrefixDesk(cache_.get(), {blue, green},
                      {.steady = steady, .wall = absl::FromUnixSeconds(1030)});
  }
  absl::StatusOr<std::vector<CachedPrefix>> TryList(
      const PrefixSelection& selection) {
    PrefixListOrder order{.selection = selection};
    RETURN_IF_ERROR(Finish(order));
    return TakeSorted(order);
  }
  std::vector<CachedPrefix> List(const PrefixSelection& selection) {
    const auto list = TryList(selection);
    EXPECT_TRUE(list.ok()) << list.status();
    return list.value_or(std::vector<CachedPrefix>());
  }
  absl::StatusOr<EvictedPrefixes> Evict(const PrefixSelection& selection,
                                        bool dry_run) {
    PrefixSweepOrder order{.selection = selection, .dry_run = dry_run};
    RETURN_IF_ERROR(Finish(order));
    return order.evicted;
  }
  absl::StatusOr<EvictedPrefixes> Flush(const PrefixSelection& selection) {
    PrefixSweepOrder order{.selection = selection, .flush = true};
    RETURN_IF_ERROR(Finish(order));
    return order.evicted;
  }
  template <typename Order>
  absl::Status Finish(Order& order) {
    for (bool done = false; !done;) {
      ASSIGN_OR_RETURN(done, Desk().Continue(order));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(32));
  VersionId blue_ = cache_->AddVersion("blue", "aa");
  VersionId green_ = cache_->AddVersion("green", "bb");
};

// An operator reads names and the time of day, and never a salt.
TEST_F(PrefixDeskTest, TellsPrefixesInThePersonsWords) {
  const std::vector<CachedPrefix> all = List({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_LT(all[0].id, all[1].id);
  EXPECT_LT(all[1].id, all[2].id);
  const CachedPrefix tenants = List({.salt = "tenant"}).at(0);
  EXPECT_EQ(tenants.id.size(), kPrefixIdDigits);
  EXPECT_EQ(tenants.parent_id.size(), kPrefixIdDigits);
  EXPECT_EQ(tenants.model, "m");
  EXPECT_EQ(tenants.version, "green");
  EXPECT_EQ(tenants.salt_hash, kTenantHash);
  EXPECT_EQ(tenants.token_count, 3 * B);
  EXPECT_EQ(tenants.block_count, 3);
  EXPECT_EQ(tenants.byte_size, 3 * cache_->layout().BlockBytes());
  EXPECT_EQ(tenants.priority, kDefaultRetentionPriority);
  EXPECT_EQ(tenants.created, absl::FromUnixSeconds(1000)) << "30 s ago";
  EXPECT_EQ(tenants.last_hit, absl::InfinitePast());
  EXPECT_EQ(tenants.expires, absl::InfiniteFuture());
  EXPECT_FALSE(tenants.pinned);
}

TEST_F(PrefixDeskTest, FindsBySaltHashAndVersion) {
  EXPECT_EQ(HashSalt(""), "");
  EXPECT_EQ(List({.salt_hash = kTenantHash}).size(), 1u);
  EXPECT_EQ(List({.salt_hash = ""}).size(), 2u) << "the empty salt's";
  EXPECT_EQ(List({.salt_hash = "0123456789abcdef"}).size(), 0u);
  EXPECT_EQ(List({.salt = "other", .salt_hash = kTenantHash}).size(), 0u);
  EXPECT_EQ(List({.version = "blue"}).size(), 2u);
  EXPECT_EQ(List({.model = "m"}).size(), 3u);
  EXPECT_EQ(List({.model = "m", .version = "green"}).size(), 1u);
  EXPECT_EQ(List({.min_tokens = 3 * B}).size(), 1u);
  EXPECT_EQ(TryList({.version = "red"}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(TryList({.model = "x"}).status().message()),
              HasSubstr("no model \"x\""));
}

// Operators change quotas while requests run: all of a list or none.
TEST_F(PrefixDeskTest, QuotasAreReplacedAsAWhole) {
  const auto floor_of = [](const std::string& salt, int64_t blocks) {
    return TenantShare{.salt = salt, .floor = {.blocks = blocks}};
  };
  const int64_t total = cache_->Capacity().total_blocks;
  const auto kept = [&] { return cache_->KeptBlocks(total); };
  const int64_t most = total * kMaxKeptPercent / 100;
  const std::vector<TenantShare> first = {floor_of("tenant", 3),
                                          floor_of("b", most - 3)};
  ASSERT_TRUE(ReplaceTenantQuotas({}, first, *cache_).ok());
  EXPECT_EQ(kept(), most);
  // Each fits in place of the old ones, though not beside them.
  const std::vector<TenantShare> second = {floor_of("c", most)};
  ASSERT_TRUE(ReplaceTenantQuotas(first, second, *cache_).ok());
  EXPECT_EQ(kept(), most);
  const absl::Status refused = ReplaceTenantQuotas(
      second, std::vector{floor_of("tenant", 3), floor_of("b", most)}, *cache_);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("tenant_quotas: salt_hash ", HashSalt("b"),
                                     ": wanted floors of at most")));
  EXPECT_EQ(kept(), most) << "those of the second list";
  ASSERT_TRUE(ReplaceTenantQuotas(second, {}, *cache_).ok());
  EXPECT_EQ(kept(), 0);
}

// Nobody types 64 digits; nobody may hit another prefix by typing few.
TEST_F(PrefixDeskTest, LeadingDigitsNameWhatOnlyOneBeginsWith) {
  const CachedPrefix one = List({}).at(1);
  EXPECT_EQ(Desk().Get(one.id)->id, one.id);
  EXPECT_EQ(Desk().Get(one.id.substr(0, 8))->id, one.id);
  EXPECT_EQ(Desk().Get(one.parent_id)->token_count, one.token_count - B);
  for (const std::string& bad :
       {one.id.substr(0, 7), one.id + "0", std::string(), std::string(64, 'g'),
        std::string("ABCDEF0123")}) {
    const absl::Status status = Desk().Get(bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("prefix_id: wanted"));
  }
  const std::string other(1, one.id[0] == '0' ? '1' : '0');
  EXPECT_TRUE(absl::IsNotFound(Desk().Get(other + one.id.substr(1)).status()));
  EXPECT_TRUE(
      absl::IsNotFound(Desk().Get(other + one.id.substr(1, 9)).status()));
}

TEST_F(PrefixDeskTest, PinsForATimeOnTheWall) {
  const std::string id = List({.salt = "tenant"}).at(0).id;
  const auto pinned = Desk().Pin(id, absl::Seconds(60));
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_TRUE(pinned->pinned);
  EXPECT_EQ(pinned->pinned_until, absl::FromUnixSeconds(1090));
  EXPECT_EQ(Desk().Pin(id, absl::InfiniteDuration())->pinned_until,
            absl::InfiniteFuture());
  EXPECT_EQ(List({.pinned = true}).size(), 1u);
  EXPECT_FALSE(Desk().Unpin(id)->pinned);
  EXPECT_EQ(Desk().Unpin(id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Desk().Pin(id, absl::Seconds(60)).ok());
  cache_->Advance(absl::Seconds(191));
  EXPECT_EQ(List({.pinned = true}).size(), 0u);
}

TEST_F(PrefixDeskTest, EvictsWhatIsMeantAndSaysHowMuch) {
  const PrefixSelection tenants = {.salt_hash = kTenantHash};
  const auto tried = Evict(tenants, true);
  EXPECT_EQ(tried->blocks, 3);
  EXPECT_EQ(tried->bytes, 3 * cache_->layout().BlockBytes());
  EXPECT_EQ(List({}).size(), 3u);
  EXPECT_EQ(Evict(tenants, false)->blocks, 3);
  EXPECT_EQ(List({}).size(), 2u);
  // All by name or none.
  const std::string id = List({}).at(0).id;
  const std::vector<std::string> with_stranger = {id, std::string(64, '0')};
  EXPECT_TRUE(absl::IsNotFound(Desk().Evict(with_stranger, false).status()));
  EXPECT_EQ(List({}).size(), 2u);
  const std::vector<std::string> known = {id.substr(0, 8)};
  EXPECT_EQ(Desk().Evict(known, false)->blocks, 2);
  EXPECT_EQ(List({}).size(), 1u);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

// A flush leaves nothing that nobody holds, so pins must not survive it.
TEST_F(PrefixDeskTest, FlushTakesPinnedOnesAndLeavesWhatIsHeld) {
  ASSERT_TRUE(
      Desk().Pin(List({.salt = "tenant"}).at(0).id, absl::Hours(1)).ok());
  EXPECT_EQ(Evict({.version = "green"}, false)->kept_blocks, 3);
  EXPECT_EQ(Flush({.version = "green"})->blocks, 3);
  const Lease running = OpenAndFill(*cache_, blue_, Tokens(0, 2 * B + 1));
  const auto flushed = Flush({.salt = ""});
  EXPECT_EQ(flushed->blocks, 2);
  EXPECT_EQ(flushed->kept_blocks, 2);
  EXPECT_EQ(List({}).size(), 1u);
  const EvictionCounts evicted = cache_->Snapshot().counters.evicted;
  EXPECT_EQ(evicted[EvictionCause::kFlush], 3 + 2) << "whatever its scope";
  EXPECT_EQ(evicted[EvictionCause::kNamed], 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST(ApplyTenantQuotas, TakesBlocksBytesAndShares) {
  const auto cache = MakeCache(SmallOptions(100));
  const int64_t block_bytes = cache->layout().BlockBytes();
  const std::vector<TenantShare> tenants = {
      {.salt = "a", .floor = {.blocks = 7}},
      {.salt = "b",
       .floor = {.bytes = 5 * block_bytes + 1},
       .most = {.ratio = 0.2}},
      {.salt = "", .floor = {.ratio = 0.3}}};
  ASSERT_TRUE(ApplyTenantQuotas(tenants, *cache).ok());
  EXPECT_EQ(cache->KeptBlocks(100), 7 + 5 + 30);
}

TEST(ApplyTenantQuotas, NamesTheTenantThatDoesNotFit) {
  const auto cache = MakeCache(SmallOptions(100));
  const std::vector<TenantShare> two = {{.salt = "a", .floor = {.blocks = 40}},
                                        {.salt = "b", .floor = {.blocks = 40}}};
  const absl::Status much = ApplyTenantQuotas(two, *cache);
  EXPECT_TRUE(absl::IsResourceExhausted(much)) << much;
  EXPECT_THAT(std::string(much.message()),
              HasSubstr("tenant_quotas: salt_hash " + HashSalt("b")))
      << "salts are in no error";
  const std::vector<TenantShare> one = {
      {.salt = "c", .floor = {.blocks = 20}, .most = {.ratio = 0.1}}};
  const absl::Status crossed = ApplyTenantQuotas(one, *cache);
  EXPECT_TRUE(absl::IsInvalidArgument(crossed)) << crossed;
}

}  // namespace
}  // namespace kvasir
