#include "server/generate_stream.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

GenerateStream::Settings Streamed() {
  GenerateStream::Settings settings;
  settings.request_id = "r1";
  settings.seed = 42;
  settings.stream = true;
  return settings;
}

FinishedEvent End(FinishReason reason, std::string tail = "") {
  FinishedEvent event;
  event.reason = reason;
  event.seed = 42;
  event.tail_text = std::move(tail);
  event.usage = {.prompt_tokens = 10,
                 .cached_tokens = 4,
                 .completion_tokens = 3,
                 .recomputed_tokens = 2,
                 .preemption_count = 1};
  event.timings.first_token = absl::Milliseconds(1500);
  event.timings.prefill = absl::Seconds(2);
  event.timings.decode = absl::Seconds(1);
  return event;
}

// The messages that are due, with those of the prompt where it stands.
std::vector<v1::GenerateResponse> Take(GenerateStream& stream,
                                       TokenEvent event) {
  std::vector<v1::GenerateResponse> all;
  for (GenerateStream::Outgoing& due : stream.Take(std::move(event))) {
    if (auto* const message = std::get_if<v1::GenerateResponse>(&due)) {
      all.push_back(std::move(*message));
      continue;
    }
    auto& echo = std::get<PromptEcho>(due);
    while (!echo.done()) all.push_back(echo.Next());
  }
  return all;
}

// All messages of a typical call: three tokens, one of them held back.
std::vector<v1::GenerateResponse> Play(GenerateStream& stream,
                                       FinishedEvent end) {
  std::vector<v1::GenerateResponse> all;
  const auto take = [&](TokenEvent event) {
    for (auto& message : Take(stream, std::move(event))) {
      all.push_back(std::move(message));
    }
  };
  take(AcceptedEvent{10, 4, "v1"});
  take(DeltaEvent{.token_ids = {5}, .text = "a"});
  take(DeltaEvent{.token_ids = {6}, .text = ""});
  take(DeltaEvent{.token_ids = {7}, .text = "bc"});
  EXPECT_FALSE(stream.end().has_value());
  take(std::move(end));
  EXPECT_TRUE(stream.end().has_value());
  return all;
}

std::string JoinText(const std::vector<v1::GenerateResponse>& messages) {
  std::string text;
  for (const auto& message : messages) {
    text += message.delta().text() + message.finished().text();
  }
  return text;
}

TEST(GenerateStreamTest, StreamedEventsInOrder) {
  GenerateStream stream(Streamed());
  const auto all = Play(stream, End(FinishReason::kLength, "!"));
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].request_id(), "r1");
  EXPECT_EQ(all[0].accepted().prompt_tokens(), 10);
  EXPECT_EQ(all[0].accepted().cached_tokens(), 4);
  EXPECT_EQ(all[0].accepted().seed(), 42u);
  EXPECT_EQ(all[0].accepted().cache_version(), "v1");
  EXPECT_EQ(all[0].accepted().cached_by_tier(0).token_count(), 4);
  EXPECT_EQ(all[1].delta().text(), "a");
  EXPECT_THAT(all[1].delta().token_ids(), IsEmpty()) << "not asked for";
  EXPECT_FALSE(all[1].delta().has_usage());
  EXPECT_EQ(all[2].delta().text(), "") << "a token without whole text yet";
  EXPECT_EQ(all[4].delta().text(), "!") << "what the decoder held back";
  const v1::Finished& finished = all[5].finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(finished.text(), "") << "streamed already";
  EXPECT_EQ(finished.usage().total_tokens(), 13);
  EXPECT_EQ(finished.usage().recomputed_tokens(), 2);
  EXPECT_EQ(finished.preemption_count(), 1);
  EXPECT_EQ(finished.seed(), 42u);
  EXPECT_FALSE(finished.has_timings());
  EXPECT_EQ(finished.matched_case(), v1::Finished::MATCHED_NOT_SET);
  EXPECT_TRUE(stream.end()->ok());
  EXPECT_EQ(stream.cached_tokens(), 4);
}

// C9: what is sent at once is what would have been streamed.
TEST(GenerateStreamTest, BufferedTextIsTheJoinedStream) {
  GenerateStream streamed(Streamed());
  GenerateStream::Settings settings = Streamed();
  settings.stream = false;
  settings.return_token_ids = true;
  GenerateStream buffered(settings);
  const auto pieces = Play(streamed, End(FinishReason::kEos, "!"));
  const auto whole = Play(buffered, End(FinishReason::kEos, "!"));
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].finished().text(), "abc!");
  EXPECT_EQ(JoinText(pieces), JoinText(whole));
  EXPECT_THAT(whole[0].finished().token_ids(), ElementsAre(5, 6, 7));
}

TEST(GenerateStreamTest, IntervalGathersTokens) {
  GenerateStream::Settings settings = Streamed();
  settings.stream_interval = 2;
  settings.return_token_ids = true;
  settings.usage_every_chunk = true;
  GenerateStream stream(settings);
  const auto all = Play(stream, End(FinishReason::kEos));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[1].delta().token_ids(), ElementsAre(5, 6));
  EXPECT_EQ(all[1].delta().usage().completion_tokens(), 2);
  EXPECT_EQ(all[1].delta().usage().cached_tokens(), 4);
  EXPECT_THAT(all[2].delta().token_ids(), ElementsAre(7)) << "the rest";
  EXPECT_EQ(all[2].delta().text(), "bc");
}

TEST(GenerateStreamTest, IdsWithoutText) {
  GenerateStream::Settings settings = Streamed();
  settings.return_text = false;
  settings.return_token_ids = true;
  GenerateStream stream(settings);
  const auto all = Play(stream, End(FinishReason::kEos));
  EXPECT_EQ(JoinText(all), "");
  EXPECT_THAT(all[1].delta().token_ids(), ElementsAre(5));
}

TEST(GenerateStreamTest, TimingsAndMatchedToken) {
  GenerateStream::Settings settings = Streamed();
  settings.timings = true;
  GenerateStream stream(settings);
  FinishedEvent end = End(FinishReason::kStopToken);
  end.matched_token = 7;
  const auto all = Play(stream, std::move(end));
  const v1::Finished& finished = all.back().finished();
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(finished.matched_token_id(), 7u);
  EXPECT_EQ(finished.timings().first_token().seconds(), 1);
  EXPECT_EQ(finished.timings().first_token().nanos(), 500000000);
  EXPECT_EQ(finished.timings().prefill_tokens_per_second(), 3)
      << "six computed prompt tokens in two seconds";
  EXPECT_EQ(finished.timings().decode_tokens_per_second(), 2);
}

// max_time is a wish for partial output, and the engine's to see; the call's
// deadline is an error.
TEST(GenerateStreamTest, TimeLimitIsAnEndAndADeadlineIsNot) {
  FinishedEvent late = End(FinishReason::kEos);
  late.status = absl::DeadlineExceededError("late");
  GenerateStream strict(Streamed());
  EXPECT_EQ(Play(strict, late).size(), 4u) << "no finished";
  EXPECT_TRUE(absl::IsDeadlineExceeded(*strict.end()));
  GenerateStream lenient(Streamed());
  const auto all = Play(lenient, End(FinishReason::kTimeLimit));
  EXPECT_EQ(all.back().finished().reason(), v1::FINISH_REASON_TIME_LIMIT);
  EXPECT_TRUE(lenient.end()->ok());
}

// Clients take the seed, the version and the prompt's length from `accepted`,
// and a request that never began has them, too.
TEST(GenerateStreamTest, WhoseTimeIsOverInTheQueueIsToldOfItsBeginning) {
  for (const bool streamed : {true, false}) {
    GenerateStream::Settings settings = Streamed();
    settings.stream = streamed;
    settings.sequence_count = 2;
    settings.cache_version = "v1";
    settings.echoed_text = "asked";
    settings.truncated_tokens = 3;
    GenerateStream stream(settings);
    std::vector<v1::GenerateResponse> all;
    for (int32_t i = 0; i < 2; ++i) {
      FinishedEvent end;
      end.index = i;
      end.reason = FinishReason::kTimeLimit;
      end.seed = 42 + static_cast<uint64_t>(i);
      end.usage.prompt_tokens = 10;
      for (auto& message : Take(stream, std::move(end))) {
        all.push_back(std::move(message));
      }
    }
    EXPECT_TRUE(stream.end()->ok());
    EXPECT_EQ(stream.cached_tokens(), 0);
    EXPECT_EQ(JoinText(all), "askedasked");
    ASSERT_EQ(all.size(), streamed ? 5u : 2u);
    EXPECT_EQ(all.back().finished().reason(), v1::FINISH_REASON_TIME_LIMIT);
    EXPECT_EQ(all.back().finished().seed(), 43u);
    if (!streamed) continue;
    EXPECT_EQ(all[0].accepted().prompt_tokens(), 10);
    EXPECT_EQ(all[0].accepted().cached_tokens(), 0);
    EXPECT_EQ(all[0].accepted().seed(), 42u);
    EXPECT_EQ(all[0].accepted().cache_version(), "v1");
    EXPECT_EQ(all[0].accepted().truncated_tokens(), 3);
    EXPECT_EQ(all[1].delta().text(), "asked");
    EXPECT_TRUE(all[3].has_finished()) << "after both of the prompt";
  }
}

TEST(GenerateStreamTest, TheStopTextIsNamed) {
  GenerateStream stream(Streamed());
  FinishedEvent end = End(FinishReason::kStopString);
  end.matched_text = "\n\n";
  const auto all = Play(stream, std::move(end));
  EXPECT_EQ(all.back().finished().reason(), v1::FINISH_REASON_STOP_STRING);
  EXPECT_EQ(all.back().finished().matched_text(), "\n\n");
}

FinishedEvent EndOf(int32_t index, uint64_t seed, std::string tail = "") {
  FinishedEvent event = End(FinishReason::kLength, std::move(tail));
  event.index = index;
  event.seed = seed;
  return event;
}

// Each sequence has an end of its own, and the call ends with the last one.
TEST(GenerateStreamTest, SequencesAreKeptApart) {
  for (const bool streamed : {true, false}) {
    GenerateStream::Settings settings = Streamed();
    settings.stream = streamed;
    settings.sequence_count = 2;
    GenerateStream stream(settings);
    std::vector<std::string> text(2);
    std::vector<int32_t> ends;
    const auto take = [&](TokenEvent event) {
      for (const auto& message : Take(stream, std::move(event))) {
        if (message.has_delta()) {
          text[message.delta().index()] += message.delta().text();
        } else if (message.has_finished()) {
          text[message.finished().index()] += message.finished().text();
          ends.push_back(message.finished().index());
          EXPECT_EQ(message.finished().seed(), 42u + ends.back());
        }
      }
    };
    take(AcceptedEvent{10, 4, "v1"});
    take(DeltaEvent{.index = 0, .token_ids = {5}, .text = "a"});
    take(DeltaEvent{.index = 1, .token_ids = {6}, .text = "x"});
    take(EndOf(1, 43, "y"));
    EXPECT_FALSE(stream.end().has_value());
    take(DeltaEvent{.index = 0, .token_ids = {7}, .text = "b"});
    take(EndOf(0, 42));
    EXPECT_TRUE(stream.end()->ok());
    EXPECT_THAT(text, ElementsAre("ab", "xy"));
    EXPECT_THAT(ends, ElementsAre(1, 0));
  }
}

// FIELD_CASES SRV-4: no message is larger than clients take, whatever is asked
// for; what is left over in the end is in the last one.
TEST(GenerateStreamTest, NoMessageIsTooLarge) {
  for (const bool streamed : {true, false}) {
    GenerateStream::Settings settings = Streamed();
    settings.stream = streamed;
    settings.stream_interval = kMaxStreamInterval;
    settings.echoed_text = std::string(3 << 20, 'e') + "\xC3\xA9";
    GenerateStream stream(settings);
    std::string text;
    size_t messages = 0;
    const auto take = [&](TokenEvent event) {
      for (const auto& message : Take(stream, std::move(event))) {
        ++messages;
        EXPECT_LE(message.ByteSizeLong(), kMaxAnswerBytes);
        text += message.delta().text() + message.finished().text();
      }
    };
    take(AcceptedEvent{10, 4, "v1"});
    const std::string piece(3000, 'p');
    std::string wanted = settings.echoed_text;
    for (int i = 0; i < 1500; ++i) {
      take(DeltaEvent{.token_ids = {5}, .text = piece});
      wanted += piece;
    }
    take(End(FinishReason::kLength, "!"));
    EXPECT_EQ(text, wanted + "!");
    EXPECT_GT(messages, 10u);
  }
}

// The prompt of 64 sequences would be 64 times as much memory as what it is
// told of, and no bound would see it.
TEST(GenerateStreamTest, ThePromptOfManySequencesWaitsOnce) {
  for (const bool streamed : {true, false}) {
    GenerateStream::Settings settings = Streamed();
    settings.stream = streamed;
    settings.sequence_count = 64;
    settings.return_token_ids = true;
    settings.usage_every_chunk = true;
    settings.echoed_text = std::string(700'000, 'e');
    settings.echoed_ids.assign(200'000, 7);
    GenerateStream stream(settings);
    std::vector<GenerateStream::Outgoing> due =
        stream.Take(AcceptedEvent{10, 4, "v1"});
    ASSERT_EQ(due.size(), streamed ? 2u : 1u);
    auto& echo = std::get<PromptEcho>(due.back());
    for (int32_t i = 0; i < 64; ++i) {
      std::string text;
      int ids = 0;
      while (text.size() < 700'000 || ids < 200'000) {
        ASSERT_FALSE(echo.done());
        const v1::GenerateResponse message = echo.Next();
        EXPECT_LE(message.ByteSizeLong(), kMaxAnswerBytes);
        ASSERT_EQ(message.delta().index(), i);
        EXPECT_EQ(message.delta().usage().cached_tokens(), 4);
        text += message.delta().text();
        ids += message.delta().token_ids_size();
      }
      EXPECT_EQ(text.size(), 700'000u);
      EXPECT_EQ(ids, 200'000);
    }
    EXPECT_TRUE(echo.done());
  }
}

TEST(GenerateStreamTest, AShortPromptIsInTheOneMessage) {
  GenerateStream::Settings settings = Streamed();
  settings.stream = false;
  settings.sequence_count = 2;
  settings.echoed_text = "said ";
  GenerateStream stream(settings);
  EXPECT_THAT(Take(stream, AcceptedEvent{10, 4, "v1"}), IsEmpty());
  for (int32_t i = 0; i < 2; ++i) {
    const auto out = Take(stream, EndOf(i, 42, "done"));
    ASSERT_EQ(out.size(), 1u);
    EXPECT_EQ(out[0].finished().text(), "said done");
  }
}

// What is kept for the last message is kept in memory, and a slow client's
// request is not paused for it: the sequences have one bound together.
TEST(GenerateStreamTest, SequencesGatherNoMoreThanOneDoes) {
  constexpr int32_t kSequences = 64;
  GenerateStream::Settings settings = Streamed();
  settings.stream = false;
  settings.sequence_count = kSequences;
  GenerateStream stream(settings);
  size_t kept = 0;
  size_t most_kept = 0;
  std::vector<size_t> told(kSequences, 0);
  const auto take = [&](TokenEvent event) {
    for (const auto& message : Take(stream, std::move(event))) {
      const size_t size =
          message.delta().text().size() + message.finished().text().size();
      kept -= size;
      told[message.has_delta() ? message.delta().index()
                               : message.finished().index()] += size;
    }
    most_kept = std::max(most_kept, kept);
  };
  take(AcceptedEvent{10, 4, "v1"});
  for (int i = 0; i < 20; ++i) {
    for (int32_t index = 0; index < kSequences; ++index) {
      kept += 1000;
      take(DeltaEvent{
          .index = index, .token_ids = {5}, .text = std::string(1000, 'p')});
    }
  }
  EXPECT_LT(most_kept, kMaxGatheredBytes);
  EXPECT_GT(most_kept, kMaxGatheredBytes / 2) << "few messages";
  for (int32_t index = 0; index < kSequences; ++index) take(EndOf(index, 42));
  EXPECT_EQ(kept, 0u);
  EXPECT_THAT(told, testing::Each(20'000u));
}

TEST(GenerateStreamTest, ProgressIsAMessageOfItsOwn) {
  GenerateStream stream(Streamed());
  const auto out = Take(stream, ProgressEvent{32, 100, absl::Seconds(2)});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].progress().done_tokens(), 32);
  EXPECT_EQ(out[0].progress().total_tokens(), 100);
  EXPECT_EQ(out[0].progress().elapsed().seconds(), 2);
}

// Log-probabilities go out with their tokens, in either mode, and name them.
TEST(GenerateStreamTest, LogprobsStandWithTheirTokens) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeTinyTokenizer();
  for (const bool streamed : {true, false}) {
    GenerateStream::Settings settings = Streamed();
    settings.stream = streamed;
    settings.version = MakeTinyVersion(tokenizer, MakeTinyInfo(*tokenizer));
    GenerateStream stream(settings);
    std::vector<v1::PositionLogprobs> prompt, output;
    const auto take = [&](TokenEvent event) {
      for (const auto& message : Take(stream, std::move(event))) {
        for (const auto& part : message.delta().prompt_logprobs()) {
          prompt.push_back(part);
        }
        for (const auto& part : message.finished().prompt_logprobs()) {
          prompt.push_back(part);
        }
        for (const auto& part : message.delta().logprobs()) {
          output.push_back(part);
        }
        for (const auto& part : message.finished().logprobs()) {
          output.push_back(part);
        }
      }
    };
    take(AcceptedEvent{2, 0, "v1"});
    take(PromptLogprobsEvent{{{}, {TokenLogprob{3 + 'b', -1.5f, 4}, {}}}});
    take(DeltaEvent{.token_ids = {3 + 'c'},
                    .text = "c",
                    .logprobs = {{TokenLogprob{3 + 'c', -0.5f, 2},
                                  {TokenLogprob{3 + 0xC3, -0.25f, 1}}}}});
    take(End(FinishReason::kLength));
    ASSERT_EQ(prompt.size(), 2u);
    EXPECT_FALSE(prompt[0].has_chosen()) << "nothing comes before it";
    EXPECT_EQ(prompt[1].chosen().text(), "b");
    ASSERT_EQ(output.size(), 1u);
    EXPECT_EQ(output[0].chosen().text(), "c");
    EXPECT_EQ(output[0].chosen().rank(), 2);
    EXPECT_EQ(output[0].chosen().logprob(), -0.5f);
    EXPECT_EQ(output[0].top(0).text(), "\xEF\xBF\xBD");
    EXPECT_EQ(output[0].top(0).raw_bytes(), "\xC3");
  }
}

TEST(GenerateStreamTest, ErrorsAreTheCallsStatusAndNoMessage) {
  GenerateStream::Settings settings = Streamed();
  settings.stream = false;
  GenerateStream stream(settings);
  FinishedEvent event = End(FinishReason::kEos);
  event.status = absl::InternalError("boom");
  EXPECT_THAT(Play(stream, event), IsEmpty());
  EXPECT_EQ(*stream.end(), absl::InternalError("boom"));
}

TEST(GenerateStreamTest, EndBeforeAnythingHappened) {
  GenerateStream stream(Streamed());
  FinishedEvent event;
  event.status = absl::CancelledError("gone");
  EXPECT_THAT(Take(stream, event), IsEmpty());
  EXPECT_TRUE(absl::IsCancelled(*stream.end()));
  EXPECT_EQ(stream.cached_tokens(), -1);
}

}  // namespace
}  // namespace kvasir
