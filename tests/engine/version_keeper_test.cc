#include "engine/version_keeper.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/memory/host_memory.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VersionKeeperTest : public ::testing::Test {
 protected:
  VersionKeeperTest() {
    auto cache =
        KvCache::Create({.layout = FakeLayout(4), .capacity_blocks = 64},
                        MakeHostMemory(), MakeLruPolicy());
    EXPECT_TRUE(cache.ok());
    cache_ = *std::move(cache);
    keeper_ = std::make_unique<VersionKeeper>(cache_.get(), &directory_);
  }

  absl::StatusOr<VersionInfo> Add(const std::string& model,
                                  const std::string& label) {
    ServedVersion::Parts parts = FakeVersion(
        label, std::make_shared<FakeRunner>(FakeLayout(4)), 100, &promise_);
    parts.info.name = model;
    VersionInfo info;
    info.model = model;
    info.label = label;
    info.fingerprint = "aa";
    return keeper_->Add(std::move(parts), std::move(info));
  }

  // Adds versions of model "m" that all serve; the first one is active.
  void AddServing(const std::vector<std::string>& labels) {
    for (const std::string& label : labels) {
      const auto added = Add("m", label);
      ASSERT_TRUE(added.ok()) << added.status();
      ASSERT_TRUE(keeper_->BeginServing(added->id).ok());
    }
  }

  std::string Active(const std::string& model = "") {
    const auto version = directory_.Resolve(model, "");
    return version.ok() ? (*version)->label() : version.status().ToString();
  }

  // "label state", as anybody may read it.
  std::vector<std::string> List() {
    std::vector<std::string> list;
    for (const VersionInfo& info : directory_.List()) {
      list.push_back(
          info.label + " " + std::string(VersionStateName(info.state)) +
          (info.active ? " active" : "") + (info.retiring ? " retiring" : ""));
    }
    return list;
  }

  Lease Hold(VersionId id, const std::vector<TokenId>& tokens) {
    auto lease = cache_->OpenLease(
        {.version = id, .purpose = LeasePurpose::kHeld, .tokens = tokens});
    EXPECT_TRUE(lease.ok()) << lease.status();
    const LeaseGrowth growth{
        &*lease, absl::MakeConstSpan(tokens).subspan(lease->token_count())};
    cache_->Reserve({&growth, 1}).Commit();
    return *std::move(lease);
  }

  const CachePromise promise_{256};
  std::unique_ptr<KvCache> cache_;
  VersionDirectory directory_;
  std::unique_ptr<VersionKeeper> keeper_;
};

TEST_F(VersionKeeperTest, TheFirstVersionOfAModelServesAtOnce) {
  ASSERT_TRUE(Add("m", "one").ok());
  EXPECT_THAT(List(), ElementsAre("one serving active"));
  ASSERT_TRUE(Add("m", "two").ok());
  ASSERT_TRUE(Add("n", "other").ok());
  EXPECT_THAT(List(), ElementsAre("one serving active", "two warming",
                                  "other serving active"));
  EXPECT_EQ(Active(), "one");
  EXPECT_EQ(Active("n"), "other");
}

TEST_F(VersionKeeperTest, TheFirstModelStaysTheFirstAfterARollOut) {
  // Requests that name no model must not get another one because a version of
  // the first was replaced.
  ASSERT_TRUE(Add("m", "m1").ok());
  ASSERT_TRUE(Add("n", "n1").ok());
  ASSERT_TRUE(Add("m", "m2").ok());
  EXPECT_THAT(List(), ElementsAre("m1 serving active", "m2 warming",
                                  "n1 serving active"));
  ASSERT_TRUE(keeper_->Activate("m", "m2").ok());
  ASSERT_TRUE(keeper_->Delete("m", "m1").ok());
  keeper_->RetireUnheld();
  EXPECT_THAT(List(), ElementsAre("m2 serving active", "n1 serving active"));
  EXPECT_EQ(Active(), "m2");
  EXPECT_EQ(Active("n"), "n1");
}

TEST_F(VersionKeeperTest, ALabelIsTakenOnce) {
  // It is part of the blocks' identity and the name that requests use.
  ASSERT_TRUE(Add("m", "one").ok());
  for (const std::string model : {"m", "n"}) {
    const auto again = Add(model, "one");
    EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(again.status().message()), HasSubstr("one"));
  }
}

// Each is a label of metrics. Counted where a version is added: calls that are
// checked earlier may come together.
TEST_F(VersionKeeperTest, VersionsAreBounded) {
  for (size_t i = 0; i < kMaxResidentVersions; ++i) {
    ASSERT_TRUE(Add("m", std::to_string(i)).ok());
  }
  const absl::Status full = Add("m", "more").status();
  EXPECT_EQ(full.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(full.message(),
            "wanted fewer than 16 versions resident, found 16; delete one");
  ASSERT_TRUE(keeper_->Delete("m", "5").ok());
  EXPECT_FALSE(Add("m", "more").ok()) << "it has not gone yet";
  keeper_->RetireUnheld();
  EXPECT_TRUE(Add("m", "more").ok());
}

// A warm-up that does not get there takes its version with it, but never one
// that requests have got: a rollback may want it again.
TEST_F(VersionKeeperTest, OnlyWhatNeverServedIsDeletedForThat) {
  ASSERT_TRUE(Add("m", "one").ok());
  std::vector<VersionId> ids;
  for (const std::string label : {"cold", "active", "rolled-back", "named"}) {
    const auto added = Add("m", label);
    ASSERT_TRUE(added.ok());
    ids.push_back(added->id);
  }
  ASSERT_TRUE(keeper_->Activate("m", "rolled-back").ok());
  ASSERT_TRUE(keeper_->RollBack("m").ok());
  ASSERT_TRUE(keeper_->BeginServing(ids[3]).ok());
  ASSERT_TRUE(keeper_->Activate("m", "active").ok());
  for (const VersionId id : ids) keeper_->DeleteUnserved(id);
  EXPECT_THAT(List(), ElementsAre("one draining", "cold warming retiring",
                                  "active serving active",
                                  "rolled-back draining", "named serving"));
  keeper_->DeleteUnserved(ids[0]);
  keeper_->RetireUnheld();
  keeper_->DeleteUnserved(ids[0]);  // gone
  EXPECT_EQ(List().size(), 4u);
}

TEST_F(VersionKeeperTest, AServingVersionCanBeNamedBeforeItIsActive) {
  // An operator tries a version before everybody gets it; a warming one is not
  // whole yet.
  AddServing({"one"});
  const auto two = Add("m", "two");
  EXPECT_EQ(directory_.Resolve("m", "two").status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(keeper_->BeginServing(two->id).ok());
  EXPECT_EQ((*directory_.Resolve("", "two"))->label(), "two");
  EXPECT_EQ(Active(), "one");
}

TEST_F(VersionKeeperTest, RollbacksGoBackTheWayThatActivationsCame) {
  AddServing({"one", "two", "three"});
  ASSERT_TRUE(keeper_->Activate("", "two").ok());
  ASSERT_TRUE(keeper_->Activate("m", "three").ok());
  EXPECT_THAT(List(), ElementsAre("one draining", "two draining",
                                  "three serving active"));
  EXPECT_EQ(keeper_->RollBack("")->label, "two");
  EXPECT_EQ(keeper_->RollBack("m")->label, "one");
  EXPECT_THAT(List(), ElementsAre("one serving active", "two draining",
                                  "three draining"));
  const auto none = keeper_->RollBack("m");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Active(), "one");
  ASSERT_TRUE(keeper_->Activate("m", "three").ok());
  EXPECT_EQ(Active(), "three");
}

TEST_F(VersionKeeperTest, GoingToAndFroDoesNotMakeTheWayLonger) {
  AddServing({"one", "two"});
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(keeper_->Activate("", "two").ok());
    ASSERT_TRUE(keeper_->Activate("", "one").ok());
  }
  EXPECT_EQ(keeper_->RollBack("")->label, "two");
  EXPECT_FALSE(keeper_->RollBack("").ok());
  EXPECT_TRUE(keeper_->Activate("", "two").ok()) << "it is so already";
  EXPECT_FALSE(keeper_->RollBack("").ok());
}

TEST_F(VersionKeeperTest, AWarmingVersionMayBeActivatedEarly) {
  AddServing({"one"});
  const auto two = Add("m", "two");
  ASSERT_TRUE(keeper_->Activate("", "two").ok());
  EXPECT_THAT(List(), ElementsAre("one draining", "two serving active"));
  ASSERT_TRUE(keeper_->BeginServing(two->id).ok());
  EXPECT_THAT(List(), ElementsAre("one draining", "two serving active"));
}

TEST_F(VersionKeeperTest, ADeletedVersionStaysUntilNobodyHoldsIt) {
  // By a request on its way, by a lease, or by the directory's own copy.
  AddServing({"one", "two"});
  const auto on_its_way = *directory_.Resolve("", "one");
  const VersionId one = on_its_way->id();
  Lease lease = Hold(one, {1, 2, 3, 4, 5});
  ASSERT_TRUE(keeper_->Activate("", "two").ok());
  const auto deleted = keeper_->Delete("m", "one");
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_TRUE(deleted->retiring);
  keeper_->RetireUnheld();
  EXPECT_THAT(List(),
              ElementsAre("one draining retiring", "two serving active"));
  EXPECT_FALSE(keeper_->RollBack("").ok());
  EXPECT_EQ(keeper_->Activate("", "one").status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::weak_ptr<const ServedVersion> weights = on_its_way;
  const_cast<std::shared_ptr<const ServedVersion>&>(on_its_way).reset();
  keeper_->RetireUnheld();
  EXPECT_TRUE(keeper_->retiring()) << "the lease holds it";
  EXPECT_FALSE(weights.expired());
  lease = Lease();
  EXPECT_EQ(cache_->Snapshot().tiers[0].blocks.cached, 1);
  keeper_->RetireUnheld();
  EXPECT_FALSE(keeper_->retiring());
  // Its memory, too, on a thread that nobody waits for.
  while (!weights.expired()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(cache_->Snapshot().tiers[0].blocks.cached, 0);
  EXPECT_THAT(List(), ElementsAre("two serving active"));
  EXPECT_EQ(keeper_->Find(one), nullptr);
  EXPECT_TRUE(Add("m", "one").ok()) << "the label is free again";
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(VersionKeeperTest, MovesThatMakeNoSenseAreRefusedByName) {
  AddServing({"one", "two"});
  EXPECT_EQ(keeper_->Delete("", "one").status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "the active one";
  for (const auto& status :
       {keeper_->Activate("", "three").status(),
        keeper_->Activate("n", "two").status(),
        keeper_->Delete("", "three").status(), keeper_->RollBack("n").status(),
        directory_.Resolve("n", "").status(),
        directory_.Resolve("n", "two").status(),
        directory_.Resolve("", "three").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  }
  ASSERT_TRUE(keeper_->Delete("", "two").ok());
  ASSERT_TRUE(keeper_->Delete("", "two").ok()) << "it is on its way";
  keeper_->RetireUnheld();
  EXPECT_THAT(List(), ElementsAre("one serving active"));
}

TEST_F(VersionKeeperTest, AWarmingVersionCanBeGivenUp) {
  AddServing({"one"});
  const auto two = Add("m", "two");
  ASSERT_TRUE(keeper_->Delete("", "two").ok());
  EXPECT_EQ(keeper_->BeginServing(two->id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  keeper_->RetireUnheld();
  EXPECT_THAT(List(), ElementsAre("one serving active"));
}

}  // namespace
}  // namespace kvasir
