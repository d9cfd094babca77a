#include "server/cli/answer_report.h"

#include <string>

#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

v1::Finished SomeAnswer() {
  v1::Finished finished;
  finished.set_reason(v1::FINISH_REASON_LENGTH);
  finished.mutable_usage()->set_prompt_tokens(612);
  finished.mutable_usage()->set_cached_tokens(592);
  finished.mutable_usage()->set_completion_tokens(96);
  finished.mutable_timings()->mutable_first_token()->set_nanos(183000000);
  finished.mutable_timings()->set_decode_tokens_per_second(41.23);
  return finished;
}

void SetCandidate(uint32_t id, const std::string& text, float logprob, int rank,
                  v1::Logprob* candidate) {
  candidate->set_token_id(id);
  candidate->set_text(text);
  candidate->set_logprob(logprob);
  candidate->set_rank(rank);
}

// The likeliest was not drawn at the second place.
v1::Finished WithLogprobs() {
  v1::Finished finished = SomeAnswer();
  finished.set_text("a\n");
  finished.add_token_ids(7);
  finished.add_token_ids(1028);
  v1::PositionLogprobs* place = finished.add_logprobs();
  SetCandidate(7, "a", -0.25F, 1, place->mutable_chosen());
  SetCandidate(7, "a", -0.25F, 1, place->add_top());
  place = finished.add_logprobs();
  SetCandidate(1028, "\n", -11.5F, 2749, place->mutable_chosen());
  SetCandidate(9, "\xc3\xa9", -0.5F, 1, place->add_top());
  finished.add_prompt_logprobs();
  return finished;
}

TEST(DescribeGenerationTest, SaysWhatWasCachedAndHowFast) {
  EXPECT_EQ(DescribeGeneration(SomeAnswer()),
            "612 prompt tokens (592 cached), first token after 183 ms; 96 "
            "tokens at 41.2 tokens/s; ended by length");
}

// Nobody should take a shortened prompt for the whole one.
TEST(DescribeGenerationTest, SaysWhatWasCutOff) {
  v1::Finished finished = SomeAnswer();
  finished.set_truncated_tokens(1200);
  EXPECT_EQ(DescribeGeneration(finished).substr(0, 50),
            "612 prompt tokens (592 cached, 1,200 more cut off)");
}

TEST(DescribeGenerationTest, SaysWhatEndedIt) {
  v1::Finished finished = SomeAnswer();
  finished.set_reason(v1::FINISH_REASON_STOP_STRING);
  finished.set_matched_text("\n\n");
  EXPECT_EQ(DescribeSequence(finished),
            "96 tokens at 41.2 tokens/s; ended by stop_string \"\\n\\n\"");
  finished.set_reason(v1::FINISH_REASON_EOS);
  finished.set_matched_token_id(2);
  finished.set_preemption_count(1);
  EXPECT_EQ(DescribeSequence(finished),
            "96 tokens at 41.2 tokens/s; ended by eos 2; 1 preemption");
}

// The prompt was consumed once, whatever each sequence says of it.
TEST(DescribeGenerationTest, SeveralSequencesShareTheirPrompt) {
  Generation generation;
  generation.sequences[0] = SomeAnswer();
  generation.sequences[1] = SomeAnswer();
  EXPECT_EQ(DescribeCall(generation),
            "612 prompt tokens (592 cached), first token after 183 ms; 192 "
            "tokens in 2 sequences");
}

TEST(DescribeProgressTest, CountsThePrompt) {
  v1::PrefillProgress progress;
  progress.set_done_tokens(512);
  progress.set_total_tokens(2048);
  progress.mutable_elapsed()->set_nanos(120000000);
  EXPECT_EQ(DescribeProgress(progress),
            "512 of 2,048 prompt tokens after 120 ms");
}

TEST(RenderLogprobsTest, TheChosenFirstAndOnlyOnce) {
  EXPECT_EQ(RenderLogprobs(WithLogprobs().logprobs(), "OUTPUT", 10, false),
            "OUTPUT    ID   LOGPROB  RANK  TEXT\n"
            "    10     7   -0.2500     1  \"a\"\n"
            "    11  1028  -11.5000  2749  \"\\n\"\n"
            "           9   -0.5000     1  \"\xc3\xa9\"\n");
}

// Nothing comes before a prompt's first token that it could follow from.
TEST(RenderLogprobsTest, APlaceWithoutAToken) {
  EXPECT_EQ(
      RenderLogprobs(WithLogprobs().prompt_logprobs(), "PROMPT", 0, false),
      "PROMPT  ID  LOGPROB  RANK  TEXT\n"
      "     0   -        -     -\n");
}

TEST(RenderDetailsTest, OnlyWhatWasAskedFor) {
  v1::GenerateRequest request;
  EXPECT_EQ(RenderDetails(request, SomeAnswer(), false), "");
  request.mutable_output()->set_return_token_ids(true);
  request.mutable_output()->set_prompt_logprob_start(3);
  const std::string details = RenderDetails(request, WithLogprobs(), false);
  EXPECT_EQ(details.substr(0, details.find("  ID")), "\nids 7 1028\n\nPROMPT");
  EXPECT_NE(details.find("\n     3   -"), std::string::npos) << details;
  EXPECT_NE(details.find("\n\nOUTPUT"), std::string::npos) << details;
}

// `kvasir generate --no-text | kvasir detokenize` reads them.
TEST(RenderDetailsTest, IdsAloneInPlaceOfText) {
  v1::GenerateRequest request;
  request.mutable_output()->set_return_text(false);
  v1::Finished finished;
  finished.add_token_ids(7);
  finished.add_token_ids(8);
  EXPECT_EQ(RenderDetails(request, finished, false), "7 8\n");
}

TEST(RenderSequenceTest, UnderItsNumber) {
  v1::Finished finished = SomeAnswer();
  finished.set_index(1);
  finished.set_text("text");
  EXPECT_EQ(RenderSequence({}, finished, false), "[2]\ntext\n");
  finished.set_text("text\n");
  EXPECT_EQ(RenderSequence({}, finished, true), "\033[1m[2]\033[0m\ntext\n");
  finished.clear_reason();
  EXPECT_EQ(RenderSequence({}, finished, false), "[2] (unfinished)\ntext\n");
}

// An output above a message's limit comes in deltas before its end, also
// without `stream`; and deltas of several sequences come mixed.
TEST(TakeTest, JoinsTheEventsOfEachSequence) {
  Generation generation;
  v1::GenerateResponse event;
  event.set_request_id("r");
  event.mutable_accepted()->set_prompt_tokens(4);
  Take(event, generation);
  for (const int index : {0, 1, 0}) {
    v1::TokenDelta& delta = *event.mutable_delta();
    delta.set_index(index);
    delta.set_text(index == 0 ? "a" : "b");
    delta.clear_token_ids();
    delta.add_token_ids(static_cast<uint32_t>(10 + index));
    delta.clear_logprobs();
    delta.add_logprobs();
    Take(event, generation);
  }
  *event.mutable_finished() = SomeAnswer();
  event.mutable_finished()->set_text("c");
  Take(event, generation);
  EXPECT_EQ(generation.request_id, "r");
  ASSERT_EQ(generation.sequences.size(), 2u);
  EXPECT_EQ(generation.first().text(), "aac");
  EXPECT_EQ(generation.first().token_ids_size(), 2);
  EXPECT_EQ(generation.first().logprobs_size(), 2);
  EXPECT_EQ(generation.first().usage().completion_tokens(), 96);
  EXPECT_EQ(generation.sequences.at(1).text(), "b");
  EXPECT_EQ(generation.sequences.at(1).reason(), v1::FINISH_REASON_UNSPECIFIED);
  EXPECT_EQ(Generation().first().text(), "");
}

}  // namespace
}  // namespace kvasir::cli
