#include "server/request_log.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/status_reason.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kStart = absl::Seconds(1000);

std::string LineOf(const RequestRecord& record, const absl::Status& status,
                   absl::Duration now, LogFormat format = LogFormat::kText) {
  std::vector<std::string> keys;
  return FormatLogLine(format, absl::UnixEpoch(), LogLevel::kInfo,
                       "request ended", FieldsOf(record, status, now, keys));
}

RequestRecord WholeRecord() {
  RequestRecord record(kStart);
  record.request_id = "r1";
  record.tenant = "blue";
  record.model = "tiny";
  record.version = "tiny@1";
  record.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  record.peer = "ipv4:127.0.0.1:5";
  record.labels = {{"app", "demo"}, {"user id", "a b"}};
  record.NoteSubmitted(7, kStart + absl::Milliseconds(1));
  record.Note(TokenEvent(AcceptedEvent{7, 4, "tiny@1"}),
              kStart + absl::Milliseconds(3));
  record.Note(TokenEvent(DeltaEvent{.token_ids = {1, 2}, .text = "a"}),
              kStart + absl::Milliseconds(11));
  record.Note(TokenEvent(DeltaEvent{.token_ids = {3}, .text = "b"}),
              kStart + absl::Seconds(1));
  return record;
}

void NoteFinished(RequestRecord& record, v1::FinishReason reason) {
  v1::GenerateResponse message;
  message.mutable_finished()->set_reason(reason);
  record.Note(message);
}

TEST(RequestLogTest, OneLineTellsTheWholeRequest) {
  RequestRecord record = WholeRecord();
  NoteFinished(record, v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(LineOf(record, absl::OkStatus(), kStart + absl::Seconds(2)),
            "1970-01-01T00:00:00.000Z info request ended id=r1 tenant=blue "
            "model=tiny version=tiny@1 "
            "trace=4bf92f3577b34da6a3ce929d0e0e4736 label.app=demo "
            "label.user_id=\"a b\" prompt_tokens=7 cached_tokens=4 "
            "completion_tokens=3 finish=length queue_seconds=0.002000 "
            "first_token_seconds=0.010000 total_seconds=2.000000");
  NoteFinished(record, v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_THAT(LineOf(record, absl::OkStatus(), kStart),
              HasSubstr("finish=length,stop_token"));
}

TEST(RequestLogTest, ErrorsTellCodeAndReason) {
  const std::string line =
      LineOf(WholeRecord(), absl::DeadlineExceededError("after 3 s"), kStart);
  EXPECT_THAT(line, HasSubstr("code=DEADLINE_EXCEEDED "
                              "reason=DEADLINE_EXCEEDED"));
  EXPECT_THAT(line, HasSubstr("completion_tokens=3"));
  EXPECT_THAT(line, Not(HasSubstr("after 3 s")))
      << "an error may quote what a client sent";
  EXPECT_THAT(LineOf(WholeRecord(), absl::InternalError("step 7"), kStart),
              HasSubstr("error=\"step 7\""))
      << "but our own faults need to be found";
}

// Refused before anything was known of it.
TEST(RequestLogTest, WhatIsNotKnownIsLeftOut) {
  EXPECT_EQ(LineOf(RequestRecord(kStart), absl::UnavailableError("loading"),
                   kStart + absl::Milliseconds(1)),
            "1970-01-01T00:00:00.000Z info request ended code=UNAVAILABLE "
            "reason=UNAVAILABLE total_seconds=0.001000");
}

TEST(RequestLogTest, PeersAreTheDebuggersBusiness) {
  EXPECT_THAT(LineOf(WholeRecord(), absl::OkStatus(), kStart),
              Not(HasSubstr("127.0.0.1")));
  SetLogging(LogFormat::kText, LogLevel::kDebug);
  EXPECT_THAT(LineOf(WholeRecord(), absl::OkStatus(), kStart),
              HasSubstr("peer=ipv4:127.0.0.1:5"));
  SetLogging(LogFormat::kText, LogLevel::kInfo);
}

// What clients may fill in themselves must not forge a line.
TEST(RequestLogTest, ItStaysOneLineWhateverIsInIt) {
  RequestRecord record = WholeRecord();
  const std::string evil =
      "x\n2026 info request ended id=forged\r\t\"\\\x01\xff";
  record.tenant = evil;
  record.model = evil;
  record.prompt = evil;
  record.labels = {{evil, evil}};
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line = LineOf(record, absl::OkStatus(), kStart, format);
    for (const char c : line) {
      EXPECT_GE(static_cast<unsigned char>(c), ' ') << line;
    }
  }
}

TEST(RequestLogTest, SamplesAreAShareAndAlwaysTheSame) {
  int sampled = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string id = absl::StrCat("req-", i);
    EXPECT_FALSE(SamplesPrompt(id, 0)) << id;
    EXPECT_TRUE(SamplesPrompt(id, 1)) << id;
    sampled += SamplesPrompt(id, 0.1);
    EXPECT_LE(SamplesPrompt(id, 0.05), SamplesPrompt(id, 0.1))
        << "a larger share holds the smaller one";
  }
  EXPECT_NEAR(sampled, 1000, 150);
  // Of every server and every start: the numbers are part of the contract.
  EXPECT_TRUE(SamplesPrompt("req-1", 0.6));
  EXPECT_FALSE(SamplesPrompt("", 0));
}

TEST(RequestLogTest, PromptsAreCutBetweenCharacters) {
  v1::GenerateRequest request;
  std::string text = "x";
  while (text.size() < 2 * kMaxLoggedPromptBytes) text += "\xc3\xa9";
  request.set_text(text);
  const std::string logged = LoggedPrompt(request);
  EXPECT_EQ(logged.size(), kMaxLoggedPromptBytes - 1);
  EXPECT_EQ(text.substr(0, logged.size()), logged);
  request.set_text("short");
  EXPECT_EQ(LoggedPrompt(request), "short");
  request.mutable_token_ids()->add_ids(3);
  EXPECT_EQ(LoggedPrompt(request), "");
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Hi");
  *request.mutable_chat()->add_messages() = message;
  EXPECT_EQ(LoggedPrompt(request), "user: Hi\nuser: Hi");
}

}  // namespace
}  // namespace kvasir
