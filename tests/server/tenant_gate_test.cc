#include "server/tenant_gate.h"

#include <algorithm>
#include <atomic>
#include <random>
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

// Whatever becomes of a request, its prompt costs nothing unless it is
// computed.
TEST_F(TenantGateTest, WhatCameToNothingIsGivenBack) {
  TenantGate gate({{"blue", 0, 600}}, &clock_);
  const auto ends_after_taking = [&](const auto& goes_on) {
    TenantGate::Pass pass = Enter(gate, "blue");
    EXPECT_TRUE(pass.TakePrompt(600).ok());
    EXPECT_FALSE(pass.TakePrompt(600).ok());
    goes_on(pass);
  };
  ends_after_taking([](TenantGate::Pass&) {});
  ends_after_taking([](TenantGate::Pass& pass) { pass.Leave(); });
  ends_after_taking([](TenantGate::Pass& pass) {
    const TenantGate::Pass moved = std::move(pass);
  });
  {
    // The client is gone before its prompt is counted.
    TenantGate::Pass pass = Enter(gate, "blue");
    pass.Leave();
    EXPECT_TRUE(pass.TakePrompt(600).ok());
  }
  ends_after_taking([](TenantGate::Pass& pass) { pass.KeepPrompt(); });
  TenantGate::Pass late = Enter(gate, "green");
  EXPECT_FALSE(gate.Enter("blue").ok()) << "it was computed";
  EXPECT_TRUE(late.TakePrompt(600).ok());
}

// A limit may come, or come anew, while prompts wait that were never charged to
// it.
TEST_F(TenantGateTest, NothingIsGivenBackThatWasNotTaken) {
  TenantGate gate({}, &clock_);
  TenantGate::Pass unlimited = Enter(gate, "blue");
  EXPECT_TRUE(unlimited.TakePrompt(600).ok());
  gate.SetLimits({{"blue", 0, 600}});
  TenantGate::Pass limited = Enter(gate, "blue");
  EXPECT_TRUE(limited.TakePrompt(600).ok());
  unlimited.Leave();
  EXPECT_FALSE(gate.Enter("blue").ok()) << "its tokens were not this bucket's";
  gate.SetLimits({});
  gate.SetLimits({{"blue", 0, 600}});
  TenantGate::Pass anew = Enter(gate, "blue");
  EXPECT_TRUE(anew.TakePrompt(600).ok());
  limited.Leave();
  EXPECT_FALSE(gate.Enter("blue").ok()) << "those were of the one before";
  anew.Leave();
  EXPECT_TRUE(gate.Enter("blue").ok());
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

// A reload of the configuration must let nobody have more than the new limits
// say, however often it comes.
TEST_F(TenantGateTest, RequestsStayCountedWhereverLimitsComeAndGo) {
  TenantGate gate({}, &clock_);
  TenantGate::Pass before = Enter(gate, "blue");
  gate.SetLimits({{"blue", 2, 0}});
  const TenantGate::Pass inside = Enter(gate, "blue");
  EXPECT_FALSE(gate.Enter("blue").ok()) << "one came in without a limit";
  gate.SetLimits({});
  const TenantGate::Pass free = Enter(gate, "blue");
  gate.SetLimits({{"*", 3, 0}});
  EXPECT_FALSE(gate.Enter("blue").ok());
  before.Leave();
  before.Leave();
  EXPECT_TRUE(gate.Enter("blue").ok());
  EXPECT_EQ(gate.tracked(), 1u);
}

TEST_F(TenantGateTest, DebtsOutliveNewLimits) {
  TenantGate gate({{"blue", 0, 600}, {"green", 0, 600}}, &clock_);
  TenantGate::Pass pass = Enter(gate, "blue");
  TenantGate::Pass full = Enter(gate, "green");
  pass.Charge(1200);  // a minute's worth, and as much of debt
  gate.SetLimits({{"*", 0, 1200}});
  EXPECT_TRUE(full.TakePrompt(1200).ok()) << "a full one is full";
  const absl::Status refused = gate.Enter("blue").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  clock_.Advance(absl::Seconds(31));
  EXPECT_TRUE(gate.Enter("blue").ok()) << "paid at the new rate";
  clock_.Advance(absl::Minutes(1));
  gate.SetLimits({{"blue", 0, 60}});
  EXPECT_TRUE(pass.TakePrompt(60).ok());
  EXPECT_FALSE(gate.Enter("blue").ok()) << "no more than it holds";
  full.KeepPrompt();
  full.Charge(1 << 20);
  EXPECT_TRUE(gate.Enter("green").ok()) << "nothing limits it any more";
}

// Two limits, one naive account of what each tenant has taken and may have in
// flight, and reloads between.
TEST_F(TenantGateTest, AgreesWithANaiveAccount) {
  const uint32_t seed = 20250107;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  const auto pick = [&random](int64_t count) {
    return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
  };
  TenantGate gate({{"*", 2, 0}}, &clock_);
  int64_t most = 2;
  struct Open {
    std::string tenant;
    TenantGate::Pass pass;
  };
  std::vector<Open> open;
  for (int i = 0; i < 20000; ++i) {
    const std::string tenant = absl::StrCat("t", pick(5));
    const auto in_flight =
        std::count_if(open.begin(), open.end(),
                      [&](const Open& one) { return one.tenant == tenant; });
    switch (pick(8)) {
      case 0:
        most = pick(4);
        gate.SetLimits(most == 0 ? std::vector<TenantLimit>{}
                                 : std::vector<TenantLimit>{{"*", most, 0}});
        break;
      case 1:
      case 2:
      case 3: {
        auto pass = gate.Enter(tenant);
        EXPECT_EQ(pass.ok(), most == 0 || in_flight < most);
        if (pass.ok()) open.push_back({tenant, *std::move(pass)});
        break;
      }
      default:
        if (open.empty()) break;
        std::swap(
            open[static_cast<size_t>(pick(static_cast<int64_t>(open.size())))],
            open.back());
        open.pop_back();
    }
  }
  open.clear();
  EXPECT_EQ(gate.tracked(), 0u);
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
