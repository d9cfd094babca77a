#include "cache/version_table.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using enum VersionState;

constexpr VersionState kAllStates[] = {kWarming, kServing, kDraining, kRetired};

// A legal way from warming to each state.
const std::map<VersionState, std::vector<VersionState>> kWays = {
    {kWarming, {}},
    {kServing, {kServing}},
    {kDraining, {kServing, kDraining}},
    {kRetired, {kServing, kDraining, kRetired}}};

VersionId AddIn(VersionTable& table, VersionState state) {
  const VersionId id = table.Add("label", "00ff");
  for (const VersionState step : kWays.at(state)) {
    EXPECT_TRUE(table.Move(id, step).ok());
  }
  return id;
}

TEST(VersionTableTest, MakesExactlyTheMovesOfItsDiagram) {
  // All sixteen pairs: a move that slips through brings a version back whose
  // weights are gone.
  const std::set<std::pair<VersionState, VersionState>> legal = {
      {kWarming, kServing},
      {kWarming, kRetired},
      {kServing, kDraining},
      {kDraining, kServing},
      {kDraining, kRetired}};
  for (const VersionState from : kAllStates) {
    for (const VersionState to : kAllStates) {
      VersionTable table;
      const VersionId id = AddIn(table, from);
      const absl::Status status = table.Move(id, to);
      SCOPED_TRACE(testing::Message()
                   << VersionStateName(from) << " -> " << VersionStateName(to));
      if (legal.count({from, to}) > 0) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_EQ(table.At(id).state, to);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(table.At(id).state, from);
        EXPECT_TRUE(absl::StrContains(status.message(), VersionStateName(from)))
            << status;
      }
    }
  }
}

TEST(VersionTableTest, AStateDecidesWhatALeaseMayBeFor) {
  // A client that names a retired version must learn that, and not get the
  // blocks of another one; who chose a version before goes on in it (C5).
  const std::map<LeasePurpose, std::set<VersionState>> allowed = {
      {LeasePurpose::kNew, {kServing}},
      {LeasePurpose::kHeld, {kServing, kDraining}},
      {LeasePurpose::kWarm, {kWarming, kServing}}};
  for (const auto& [purpose, states] : allowed) {
    for (const VersionState state : kAllStates) {
      VersionTable table;
      const absl::Status status = table.CheckOpen(AddIn(table, state), purpose);
      EXPECT_EQ(status.code(), states.count(state) > 0
                                   ? absl::StatusCode::kOk
                                   : absl::StatusCode::kFailedPrecondition)
          << status;
    }
  }
  VersionTable table;
  for (const VersionId id : {VersionId(), VersionId(0), VersionId(7)}) {
    EXPECT_EQ(table.CheckOpen(id, LeasePurpose::kNew).code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(table.Move(id, kServing).code(), absl::StatusCode::kNotFound);
  }
}

TEST(VersionTableTest, DoesNotRetireUnderALease) {
  // Contract C5: who began in a version ends in it.
  VersionTable table;
  const VersionId id = AddIn(table, kServing);
  table.AddLease(id);
  ASSERT_TRUE(table.Move(id, kDraining).ok());
  const absl::Status status = table.Move(id, kRetired);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "1 leases")) << status;
  table.DropLease(id);
  EXPECT_TRUE(table.Move(id, kRetired).ok());
}

TEST(VersionTableTest, KeepsLabelsFingerprintsAndTotalsApart) {
  // Two versions may have one label while a roll-out is under way.
  VersionTable table;
  const VersionId first = table.Add("m@1", "aa");
  const VersionId second = table.Add("m@1", "bb");
  table.CountHits(second, 32);
  EXPECT_NE(first, second);
  EXPECT_EQ(table.At(first).fingerprint, "aa");
  EXPECT_EQ(table.At(first).hit_tokens, 0);
  EXPECT_EQ(table.At(second).hit_tokens, 32);
  EXPECT_EQ(table.versions().size(), 2u);
}

TEST(VersionTableTest, ForgetsTheFirstToRetireAndNoOther) {
  // Whoever rolls out ten times a day must not pay for each of them in every
  // snapshot for ever; an id that came back would name another's blocks.
  VersionTable table;
  const VersionId serving = AddIn(table, kServing);
  std::vector<VersionId> retired;
  for (size_t i = 0; i < VersionTable::kMaxRetired; ++i) {
    retired.push_back(AddIn(table, kServing));
    table.CountHits(retired.back(), 1);
    ASSERT_TRUE(table.Move(retired.back(), kDraining).ok());
  }
  std::swap(retired[0], retired[1]);  // not the order in which they were made
  for (const VersionId id : retired) {
    ASSERT_TRUE(table.Move(id, kRetired).ok());
    EXPECT_EQ(table.ForgetOldest(), std::nullopt);
  }
  const VersionId last = AddIn(table, kRetired);
  const std::optional<CacheVersion> gone = table.ForgetOldest();
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->id, retired[0]);
  EXPECT_EQ(gone->hit_tokens, 1);
  EXPECT_EQ(table.ForgetOldest(), std::nullopt);
  EXPECT_EQ(table.versions().size(), VersionTable::kMaxRetired + 1);
  EXPECT_EQ(table.CheckOpen(retired[0], LeasePurpose::kNew).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(table.IsResident(serving));
  EXPECT_FALSE(table.IsResident(last));
  EXPECT_FALSE(table.IsResident(retired[0]));
  EXPECT_EQ(table.At(retired[1]).state, kRetired);
  EXPECT_GT(table.Add("label", "00ff"), last);
}

TEST(VersionTableDeathTest, StopsALeaseThatWasNeverTaken) {
  // A negative count would let a version retire too early later on.
  VersionTable table;
  const VersionId id = table.Add("m", "aa");
  EXPECT_DEATH(table.DropLease(id), "version 0");
  EXPECT_DEATH(table.AddLease(VersionId(3)), "version 3 of 1");
}

}  // namespace
}  // namespace kvasir
