#include "engine/inbox.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/concurrent.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;

class NullSink final : public TokenSink {
 public:
  bool Push(TokenEvent) override { return true; }
};

Request MakeRequest(std::string id) {
  Request request;
  request.id = std::move(id);
  request.prompt = {1};
  return request;
}

absl::Status Submit(Inbox& inbox, std::string id) {
  return inbox.Submit(MakeRequest(std::move(id)), std::make_shared<NullSink>(),
                      absl::ZeroDuration());
}

// Requests must be served in the order in which they came.
TEST(Inbox, HandsOverInOrderOfArrival) {
  Inbox inbox(10);
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(Submit(inbox, id).ok());
  EXPECT_EQ(inbox.untaken(), 3);
  const Mail mail = inbox.Take();
  ASSERT_EQ(mail.submissions.size(), 3u);
  EXPECT_EQ(mail.submissions[0].request.id, "a");
  EXPECT_EQ(mail.submissions[2].request.id, "c");
  EXPECT_TRUE(inbox.Take().submissions.empty());
}

// A queue without a bound turns overload into lost memory; and the place must
// be counted until the request has a lease, wherever it waits.
TEST(Inbox, IsBoundedUntilRequestsAreAdmitted) {
  Inbox inbox(2);
  EXPECT_TRUE(Submit(inbox, "a").ok());
  EXPECT_TRUE(Submit(inbox, "b").ok());
  inbox.Take();
  const absl::Status full = Submit(inbox, "c");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("inbox_limit"));
  EXPECT_THAT(std::string(full.message()), HasSubstr("2"));
  EXPECT_EQ(inbox.rejections().inbox_full, 1);

  inbox.Admit("a");
  inbox.Admit("a");  // resumed after a preemption: not a second place
  EXPECT_TRUE(Submit(inbox, "c").ok());
  EXPECT_FALSE(Submit(inbox, "d").ok());
  inbox.Retire("b");  // ended without ever having run
  EXPECT_TRUE(Submit(inbox, "d").ok());
  inbox.Retire("a");  // had given its place back already
  EXPECT_FALSE(Submit(inbox, "e").ok());
}

// Two requests of one name could not be told apart by Cancel().
TEST(Inbox, RefusesAnIdThatIsInFlight) {
  Inbox inbox(10);
  EXPECT_TRUE(Submit(inbox, "a").ok());
  const absl::Status again = Submit(inbox, "a");
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("\"a\""));
  inbox.Take();
  EXPECT_FALSE(Submit(inbox, "a").ok());
  inbox.Retire("a");
  EXPECT_TRUE(Submit(inbox, "a").ok());
}

// A client that leaves while its request is still queued must reach it too.
TEST(Inbox, CancelRaisesTheFlagWhereverTheRequestIs) {
  Inbox inbox(10);
  EXPECT_TRUE(Submit(inbox, "a").ok());
  EXPECT_TRUE(Submit(inbox, "b").ok());
  EXPECT_TRUE(inbox.Cancel("a", CancelSource::kAdmin, "why not"));
  const Mail mail = inbox.Take();
  const CancelFlag& flag = *mail.submissions[0].cancel;
  ASSERT_TRUE(flag.requested());
  EXPECT_EQ(flag.source(), CancelSource::kAdmin);
  EXPECT_EQ(flag.reason(), "why not");
  EXPECT_FALSE(mail.submissions[1].cancel->requested());
  EXPECT_TRUE(inbox.Cancel("b", CancelSource::kClient, ""));
  EXPECT_TRUE(mail.submissions[1].cancel->requested());
  EXPECT_FALSE(inbox.Cancel("c", CancelSource::kClient, ""));
  inbox.Retire("a");
  EXPECT_FALSE(inbox.Cancel("a", CancelSource::kClient, ""));
}

// A reason that changes while the engine reads it would be a race.
TEST(CancelFlag, TheFirstWishWins) {
  CancelFlag flag;
  EXPECT_FALSE(flag.requested());
  EXPECT_TRUE(flag.Request(CancelSource::kDrain, "first"));
  EXPECT_FALSE(flag.Request(CancelSource::kClient, "second"));
  EXPECT_EQ(flag.source(), CancelSource::kDrain);
  EXPECT_EQ(flag.reason(), "first");
}

// A drain must turn new calls away and let the others end.
TEST(Inbox, CloseRefusesNewRequestsAndKeepsTheOld) {
  Inbox inbox(10);
  EXPECT_TRUE(Submit(inbox, "a").ok());
  inbox.Close(absl::UnavailableError("draining"));
  EXPECT_EQ(Submit(inbox, "b").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(inbox.rejections().draining, 1);
  EXPECT_EQ(inbox.Take().submissions.size(), 1u);
  bool ran = false;
  EXPECT_TRUE(
      inbox.Post([&ran](KvCache&, VersionKeeper&) { ran = true; }).ok());
  EXPECT_EQ(inbox.Take().commands.size(), 1u);
  EXPECT_FALSE(ran) << "a command runs on the engine thread alone";
}

// Whoever waits for a command would wait for ever if it were taken after the
// last turn of the engine.
TEST(Inbox, StopIsSeenAndRefusesCommands) {
  Inbox inbox(10);
  EXPECT_FALSE(inbox.Take().stop);
  inbox.Stop();
  EXPECT_EQ(Submit(inbox, "a").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(inbox.Post([](KvCache&, VersionKeeper&) {}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(inbox.Take().stop);
  EXPECT_TRUE(inbox.Take().stop);
}

// WaitIdle() that returns before the last event is delivered would let the
// caller tear down the sinks under it.
TEST(Inbox, IsIdleOnlyAfterTheLastEvent) {
  Inbox inbox(10);
  EXPECT_TRUE(inbox.WaitIdle(absl::ZeroDuration()));
  EXPECT_TRUE(Submit(inbox, "a").ok());
  inbox.Take();
  EXPECT_FALSE(inbox.WaitIdle(absl::ZeroDuration()));
  inbox.Retire("a");
  EXPECT_FALSE(inbox.WaitIdle(absl::ZeroDuration()));
  inbox.NoteDelivered(1);
  EXPECT_TRUE(inbox.WaitIdle(absl::ZeroDuration()));
}

// Each kind of news must wake a sleeping engine, or it would sleep through it.
TEST(Inbox, EveryKindOfNewsEndsTheWait) {
  const std::vector<std::function<void(Inbox&)>> news = {
      [](Inbox& inbox) { EXPECT_TRUE(Submit(inbox, "b").ok()); },
      [](Inbox& inbox) {
        EXPECT_TRUE(inbox.Post([](KvCache&, VersionKeeper&) {}).ok());
      },
      [](Inbox& inbox) { inbox.Cancel("a", CancelSource::kClient, ""); },
      [](Inbox& inbox) { inbox.CancelAll(CancelSource::kDrain, ""); },
      [](Inbox& inbox) { inbox.Stop(); },
  };
  for (const auto& happen : news) {
    Inbox inbox(10);
    EXPECT_TRUE(Submit(inbox, "a").ok());
    inbox.Take();
    RunConcurrently({[&] { inbox.WaitForMail(absl::InfiniteDuration()); },
                     [&] { happen(inbox); }});
  }
}

// What was taken is no news any more: an engine that is woken again and again
// by it would burn a core while idle.
TEST(Inbox, TakenMailIsNoNews) {
  Inbox inbox(10);
  EXPECT_TRUE(Submit(inbox, "a").ok());
  EXPECT_TRUE(inbox.WaitForMail(absl::ZeroDuration()));
  inbox.Take();
  EXPECT_FALSE(inbox.WaitForMail(absl::ZeroDuration()));
}

// The four kinds of threads at once: clients that submit and cancel, an
// operator that posts, one that waits, and the engine. Every request must come
// out exactly once, and the thread sanitizer must stay silent.
TEST(Inbox, ManyThreadsLoseAndDoubleNothing) {
  constexpr int kClients = 4;
  constexpr int kRequests = 200;
  Inbox inbox(8);
  std::atomic<int> accepted = 0;
  std::atomic<int> commands_posted = 0;
  std::atomic<int> clients_left = kClients;
  int taken = 0;
  int cancelled = 0;
  int commands = 0;

  std::vector<std::function<void()>> operations;
  for (int client = 0; client < kClients; ++client) {
    operations.push_back([&, client] {
      for (int i = 0; i < kRequests; ++i) {
        const std::string id = absl::StrCat(client, "/", i);
        if (!Submit(inbox, id).ok()) continue;
        ++accepted;
        if (i % 3 == 0) inbox.Cancel(id, CancelSource::kClient, "changed mind");
      }
      --clients_left;
    });
  }
  operations.push_back([&] {
    while (clients_left > 0) {
      if (inbox.Post([](KvCache&, VersionKeeper&) {}).ok()) ++commands_posted;
      inbox.rejections();
      absl::SleepFor(absl::Microseconds(50));
    }
    EXPECT_TRUE(inbox.WaitIdle(absl::InfiniteDuration()));
    inbox.Stop();
  });
  operations.push_back([&] {
    while (true) {
      Mail mail = inbox.Take();
      commands += static_cast<int>(mail.commands.size());
      for (const Submission& submission : mail.submissions) {
        ++taken;
        cancelled += submission.cancel->requested();
        inbox.Admit(submission.request.id);
        inbox.Retire(submission.request.id);
      }
      inbox.NoteDelivered(static_cast<int64_t>(mail.submissions.size()));
      if (mail.stop) return;
      inbox.WaitForMail(absl::InfiniteDuration());
    }
  });
  RunConcurrently(std::move(operations));

  EXPECT_EQ(taken, accepted);
  EXPECT_EQ(commands, commands_posted);
  EXPECT_LE(cancelled, taken);
  EXPECT_EQ(accepted + inbox.rejections().inbox_full, kClients * kRequests);
  EXPECT_EQ(inbox.in_flight(), 0);
}

}  // namespace
}  // namespace kvasir
