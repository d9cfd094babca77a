#include "server/tenant_gate.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/status_mapping.h"
#include "server/stream_gate.h"
#include "tests/server/status_details.h"
#include "tests/support/fake_clock.h"

namespace kvasir {
namespace {

class TenantGateTest : public testing::Test {
 protected:
  // A pass, or the test fails.
  TenantGate::Pass Enter(TenantGate& gate, const std::string& tenant) {
    absl::StatusOr<TenantGate::Pass> pass = gate.Enter(tenant);
    EXPECT_TRUE(pass.ok()) << pass.status();
    return pass.ok() ? *std::move(pass) : TenantGate::Pass();
  }

  FakeClock clock_;
};

TEST_F(TenantGateTest, RequestsInFlightAreCountedPerTenant) {
  TenantGate gate({{"blue", 2, 0}}, &clock_);
  TenantGate::Pass first = Enter(gate, "blue");
  {
    const TenantGate::Pass second = Enter(gate, "blue");
    const absl::Status third = gate.Enter("blue").status();
    EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
    const StatusDetails details = DetailsOf(ToGrpcStatus(third));
    EXPECT_EQ(details.info.reason(), "TENANT_LIMIT");
    EXPECT_EQ(details.info.metadata().at("limit"), "server.tenant_limits");
    ASSERT_EQ(details.quota.violations_size(), 1);
    EXPECT_EQ(details.quota.violations(0).subject(), "tenant:blue");
    EXPECT_EQ(details.quota.violations(0).quota_metric(), "requests_in_flight");
    EXPECT_EQ(details.quota.violations(0).quota_value(), 2);
    EXPECT_TRUE(details.has("RetryInfo"));
    EXPECT_TRUE(gate.Enter("green").ok()) << "others have their own";
  }
  const TenantGate::Pass again = Enter(gate, "blue");
  EXPECT_FALSE(gate.Enter("blue").ok());
  first.Leave();
  EXPECT_TRUE(gate.Enter("blue").ok());
}

TEST_F(TenantGateTest, TokensRunOutAndComeBack) {
  TenantGate gate({{"blue", 0, 600}}, &clock_);
  TenantGate::Pass pass = Enter(gate, "blue");
  EXPECT_TRUE(pass.TakePrompt(500).ok());
  const absl::Status late = pass.TakePrompt(200);
  EXPECT_TRUE(absl::IsResourceExhausted(late)) << late;
  const StatusDetails details = DetailsOf(ToGrpcStatus(late));
  EXPECT_EQ(details.quota.violations(0).quota_metric(), "tokens_per_minute");
  EXPECT_EQ(details.quota.violations(0).quota_value(), 600);
  EXPECT_EQ(details.retry.retry_delay().seconds(), 10)
      << "a hundred more at ten a second";
  clock_.Advance(*RetryDelay(late));
  EXPECT_TRUE(pass.TakePrompt(200).ok()) << "as it was told";
}

// How long an output gets is known too late to refuse it, but the next request
// pays.
TEST_F(TenantGateTest, OutputMakesADebtThatKeepsTheNextOneOut) {
  TenantGate gate({{"", 0, 600}}, &clock_);
  TenantGate::Pass pass = Enter(gate, "");
  for (int i = 0; i < 1200; ++i) pass.Charge(1);
  pass.Leave();
  pass.Charge(60);
  const absl::Status refused = gate.Enter("").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("callers without a tenant"));
  clock_.Advance(absl::Seconds(65));
  EXPECT_FALSE(gate.Enter("").ok());
  clock_.Advance(absl::Seconds(2));
  EXPECT_TRUE(gate.Enter("").ok());
}

TEST_F(TenantGateTest, WhatCameToNothingIsGivenBack) {
  TenantGate gate({{"blue", 0, 600}}, &clock_);
  TenantGate::Pass pass = Enter(gate, "blue");
  EXPECT_TRUE(pass.TakePrompt(600).ok());
  pass.Charge(-600);
  EXPECT_TRUE(pass.TakePrompt(600).ok());
}

TEST_F(TenantGateTest, EveryTenantHasItsOwnShareOfTheCommonLimit) {
  TenantGate gate({{"*", 1, 0}, {"blue", 3, 0}}, &clock_);
  std::vector<TenantGate::Pass> passes;
  for (const char* tenant : {"a", "b", "", "blue", "blue", "blue"}) {
    passes.push_back(Enter(gate, tenant));
  }
  for (const char* tenant : {"a", "b", "", "blue"}) {
    EXPECT_FALSE(gate.Enter(tenant).ok()) << tenant;
  }
}

// Whoever makes up names must not fill the memory.
TEST_F(TenantGateTest, TenantsThatAreDoneAreForgotten) {
  TenantGate gate({{"*", 1, 600}}, &clock_);
  const TenantGate::Pass kept = Enter(gate, "kept");
  for (int i = 0; i < 20000; ++i) {
    const TenantGate::Pass pass = Enter(gate, absl::StrCat("tenant", i));
    clock_.Advance(absl::Milliseconds(1));
  }
  EXPECT_LT(gate.tracked(), 3000u);
  EXPECT_FALSE(gate.Enter("kept").ok()) << "it is in flight";
}

TEST_F(TenantGateTest, LimitsCanBeChangedUnderRequests) {
  TenantGate gate({}, &clock_);
  TenantGate::Pass before = Enter(gate, "blue");
  gate.SetLimits({{"blue", 1, 600}});
  EXPECT_TRUE(before.TakePrompt(700).ok()) << "it came in without a limit";
  TenantGate::Pass inside = Enter(gate, "blue");
  EXPECT_FALSE(gate.Enter("blue").ok());
  gate.SetLimits({{"blue", 2, 0}});
  EXPECT_TRUE(inside.TakePrompt(1 << 20).ok());
  EXPECT_TRUE(gate.Enter("blue").ok());
  gate.SetLimits({});
  inside.Charge(5);
  EXPECT_TRUE(gate.Enter("blue").ok());
}

TEST_F(TenantGateTest, ManyThreadsNeverExceedTheLimit) {
  constexpr int kLimit = 3;
  TenantGate gate({{"blue", kLimit, 0}}, &clock_);
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto pass = gate.Enter("blue");
        if (!pass.ok()) continue;
        EXPECT_LE(++inside, kLimit);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<TenantGate::Pass> all;
  for (int i = 0; i < kLimit; ++i) all.push_back(Enter(gate, "blue"));
  EXPECT_FALSE(gate.Enter("blue").ok()) << "and nothing was lost";
}

TEST(StreamGateTest, OpenCallsAreCounted) {
  StreamGate gate(2);
  auto first = gate.Enter();
  auto second = gate.Enter();
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status third = gate.Enter().status();
  EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
  const StatusDetails details = DetailsOf(ToGrpcStatus(third));
  EXPECT_EQ(details.info.reason(), "TOO_MANY_STREAMS");
  EXPECT_EQ(details.info.metadata().at("limit"), "server.max_streams");
  EXPECT_EQ(details.quota.violations(0).quota_value(), 2);
  EXPECT_TRUE(details.has("RetryInfo"));
  EXPECT_EQ(gate.open(), 2);
  StreamGate::Slot moved = *std::move(first);
  moved.Leave();
  moved.Leave();
  EXPECT_EQ(gate.open(), 1);
  EXPECT_TRUE(gate.Enter().ok());
}

}  // namespace
}  // namespace kvasir
