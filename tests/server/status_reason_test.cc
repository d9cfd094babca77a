#include "server/status_reason.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "engine/inbox.h"
#include "engine/request_check.h"
#include "engine/version_directory.h"
#include "server/work_pool.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

std::string LimitName(const absl::Status& status) {
  const auto limit = LimitOf(status);
  return limit.has_value() ? limit->name : "";
}

// The engine's own words, not a copy of them: who rewords an error there breaks
// this.
TEST(StatusReasonTest, TheEnginesWordsAreKnown) {
  RequestLimits limits;
  limits.model_context = 256;
  limits.cache_tokens = 128;
  EXPECT_EQ(ReasonOf(CheckPromptLength(300, limits)),
            "CONTEXT_LENGTH_EXCEEDED");
  const absl::Status small = CheckPromptLength(200, limits);
  EXPECT_EQ(ReasonOf(small), kReasonCacheTooSmall);
  EXPECT_EQ(LimitName(small), "cache.size");
  EXPECT_FALSE(RetryDelay(small).has_value()) << "it will never fit";

  Inbox inbox(1);
  Request request;
  request.id = "a";
  ASSERT_TRUE(inbox.Submit(request, nullptr, absl::ZeroDuration()).ok());
  EXPECT_EQ(ReasonOf(inbox.Submit(request, nullptr, absl::ZeroDuration())),
            "REQUEST_ID_IN_FLIGHT");
  request.id = "b";
  const absl::Status full =
      inbox.Submit(request, nullptr, absl::ZeroDuration());
  EXPECT_EQ(ReasonOf(full), kReasonQueueFull);
  EXPECT_EQ(LimitName(full), "engine.inbox_limit");
  EXPECT_TRUE(RetryDelay(full).has_value());
  inbox.Stop();
  request.id = "c";
  const absl::Status late =
      inbox.Submit(request, nullptr, absl::ZeroDuration());
  EXPECT_EQ(ReasonOf(late), kReasonDraining);
  EXPECT_TRUE(RetryDelay(late).has_value());
}

TEST(StatusReasonTest, WhatIsNotThereIsNamed) {
  FakeBackend backend;
  const auto named = [](const absl::Status& status) {
    const auto resource = ResourceOf(status);
    return resource.has_value() ? resource->type + " " + resource->name : "";
  };
  EXPECT_EQ(named(backend.Resolve("m", "").status()), "model m");
  EXPECT_EQ(named(backend.Resolve("", "v 1").status()), "version v 1");
  EXPECT_EQ(named(absl::NotFoundError("no prefix 00ff is cached")),
            "prefix 00ff");
  EXPECT_EQ(named(absl::NotFoundError("no listed prefix begins with 00ff")),
            "prefix 00ff");
  EXPECT_EQ(named(absl::NotFoundError("no cache version \"v\" is resident")),
            "version v");
  EXPECT_EQ(named(absl::NotFoundError("no such file")), "");
  EXPECT_EQ(named(absl::InternalError("no model \"m\"")), "");
  backend.AddVersion("old", VersionState::kDraining);
  EXPECT_EQ(ReasonOf(backend.Resolve("", "old").status()),
            "VERSION_NOT_SERVING");
}

TEST(StatusReasonTest, PoolsNameWhatWaits) {
  WorkPool pool({.max_tasks = 0, .task_name = "texts to be tokenised"});
  const absl::Status full = pool.Post([] {});
  EXPECT_EQ(ReasonOf(full), kReasonQueueFull);
  EXPECT_EQ(LimitName(full), "texts to be tokenised");
}

// A limit's owner may be called anything.
TEST(StatusReasonTest, LimitsComeBackAsTheyWereGiven) {
  const LimitInfo given = {"a.b", "tenant:x\ny\n", "tokens_per_minute",
                           1 << 30};
  const auto limit =
      LimitOf(WithLimit(absl::ResourceExhaustedError("x"), given));
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->name, given.name);
  EXPECT_EQ(limit->subject, given.subject);
  EXPECT_EQ(limit->metric, given.metric);
  EXPECT_EQ(limit->value, given.value);
  EXPECT_FALSE(LimitOf(absl::ResourceExhaustedError("x")).has_value());
  EXPECT_FALSE(LimitOf(absl::InternalError("inbox_limit: ")).has_value());
}

TEST(StatusReasonTest, UnknownWordsFallBackToTheCode) {
  for (int code = 1; code <= 16; ++code) {
    const std::string reason =
        ReasonOf(absl::Status(static_cast<absl::StatusCode>(code), "?"));
    EXPECT_FALSE(reason.empty()) << code;
    EXPECT_EQ(reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
              std::string::npos)
        << reason;
  }
  EXPECT_EQ(ReasonOf(absl::ResourceExhaustedError("?")), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(ReasonOf(WithReason(absl::InternalError("?"), "OWN")), "OWN");
}

// Whoever adds a reason tells authors of clients what to do about it.
TEST(StatusReasonTest, EveryReasonIsInTheGuideForClients) {
  std::ifstream file(KVASIR_SOURCE_DIR "/proto/README.md");
  const std::string guide{std::istreambuf_iterator<char>(file),
                          std::istreambuf_iterator<char>()};
  for (const std::string& reason : AllReasons()) {
    EXPECT_NE(guide.find("`" + reason + "`"), std::string::npos) << reason;
  }
}

TEST(StatusReasonTest, WantedAndFoundAreCutOutOfTheSentence) {
  const auto expect = [](std::string_view message, const std::string& wanted,
                         const std::string& found) {
    const WantedFound parts = WantedFoundIn(message);
    EXPECT_EQ(parts.wanted, wanted) << message;
    EXPECT_EQ(parts.found, found) << message;
  };
  expect("sampling.top_p: wanted 0 to 1, found 2", "0 to 1", "2");
  expect("prompt: wanted at most 255 tokens (a context of 256), found 300",
         "at most 255 tokens", "300");
  expect("wanted fewer than 8 versions resident, found 8; delete one",
         "fewer than 8 versions resident", "8");
  expect("ids[3]: wanted the id of a token, found 7, which is unused",
         "the id of a token", "7");
  expect("wanted peace", "", "");
  expect("nothing of the kind", "", "");
  expect("", "", "");
  expect("wanted " + std::string(500, 'x') + ", found 3", "", "3");
}

}  // namespace
}  // namespace kvasir
