#include "server/generation_codec.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr int32_t kVocabulary = 50;

std::string FaultOf(const v1::SamplingParams& wire) {
  return std::string(DecodeSampling(wire, 1, kVocabulary).status().message());
}

TEST(GenerationCodecTest, EverySettingReachesTheSampler) {
  v1::SamplingParams wire;
  wire.set_temperature(0.5f);
  wire.set_top_p(0.25f);
  wire.set_min_p(0.125f);
  wire.set_typical_p(0.75f);
  wire.set_top_k(9);
  wire.set_seed(11);
  wire.set_frequency_penalty(-1);
  wire.set_presence_penalty(1.5f);
  wire.set_repetition_penalty(1.25f);
  wire.set_penalty_window(64);
  (*wire.mutable_logit_bias())[30] = -5;
  (*wire.mutable_logit_bias())[4] = 2;
  wire.add_allowed_token_ids(4);
  wire.add_banned_token_ids(30);
  const auto params = DecodeSampling(wire, 1, kVocabulary);
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature, 0.5f);
  EXPECT_EQ(params->top_p, 0.25f);
  EXPECT_EQ(params->min_p, 0.125f);
  EXPECT_EQ(params->typical_p, 0.75f);
  EXPECT_EQ(params->top_k, 9);
  EXPECT_EQ(params->seed, 11u);
  EXPECT_EQ(params->frequency_penalty, -1);
  EXPECT_EQ(params->presence_penalty, 1.5f);
  EXPECT_EQ(params->repetition_penalty, 1.25f);
  EXPECT_EQ(params->penalty_window, 64);
  EXPECT_THAT(params->logit_bias,
              ElementsAre(LogitBias{4, 2}, LogitBias{30, -5}))
      << "in the order of ids, whatever the map's";
  EXPECT_THAT(params->allowed_ids, ElementsAre(4));
  EXPECT_THAT(params->banned_ids, ElementsAre(30));
}

// FIELD_CASES SAM-1: ids that the logits do not have are refused by name, with
// the number that was sent.
TEST(GenerationCodecTest, IdsAreCheckedAgainstTheLogits) {
  for (const uint32_t id : {uint32_t{50}, uint32_t{55}, uint32_t{1} << 31,
                            std::numeric_limits<uint32_t>::max()}) {
    v1::SamplingParams bias, allowed, banned;
    (*bias.mutable_logit_bias())[id] = 1;
    allowed.add_allowed_token_ids(id);
    banned.add_banned_token_ids(id);
    v1::StoppingParams stopping;
    stopping.add_token_ids(id);
    const std::string found = "found " + std::to_string(id);
    EXPECT_THAT(FaultOf(bias), StartsWith("sampling.logit_bias"));
    EXPECT_THAT(FaultOf(bias), testing::HasSubstr(found));
    EXPECT_THAT(FaultOf(allowed), StartsWith("sampling.allowed_token_ids[0]"));
    EXPECT_THAT(FaultOf(banned), StartsWith("sampling.banned_token_ids[0]"));
    EXPECT_THAT(
        std::string(DecodeStopping(stopping, kVocabulary).status().message()),
        StartsWith("stopping.token_ids[0]"));
  }
  v1::SamplingParams many;
  for (uint32_t id = 0; id < 5000; ++id) (*many.mutable_logit_bias())[id] = 1;
  EXPECT_THAT(FaultOf(many), StartsWith("sampling.logit_bias: wanted at most"));
  v1::SamplingParams wild;
  (*wild.mutable_logit_bias())[3] = std::nanf("");
  EXPECT_THAT(FaultOf(wild), StartsWith("sampling.logit_bias"));
  (*wild.mutable_logit_bias())[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(FaultOf(wild), StartsWith("sampling.logit_bias"));
}

TEST(GenerationCodecTest, SequencesAreCounted) {
  v1::SamplingParams wire;
  EXPECT_EQ(*DecodeSequenceCount(wire), 1);
  wire.set_n(kMaxRequestSequences);
  EXPECT_EQ(*DecodeSequenceCount(wire), kMaxRequestSequences);
  for (const int32_t n : {0, -1, kMaxRequestSequences + 1}) {
    wire.set_n(n);
    EXPECT_THAT(std::string(DecodeSequenceCount(wire).status().message()),
                StartsWith("sampling.n: wanted 1 to 64, found "));
  }
}

TEST(GenerationCodecTest, StoppingBoundsFitEachOther) {
  v1::StoppingParams wire;
  wire.set_max_tokens(5);
  wire.set_min_tokens(6);
  EXPECT_THAT(std::string(DecodeStopping(wire, kVocabulary).status().message()),
              StartsWith("stopping.min_tokens: "));
  wire.set_min_tokens(5);
  wire.add_strings("END");
  wire.set_include_stop(true);
  const auto params = DecodeStopping(wire, kVocabulary);
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params->min_tokens, 5);
  EXPECT_THAT(params->strings, ElementsAre("END"));
  EXPECT_TRUE(params->include_stop);
}

class OutputTest : public testing::Test {
 protected:
  std::string Fault() {
    GenerateCall call;
    call.stream = stream_;
    return std::string(DecodeOutput(wire_, kVocabulary, call).message());
  }
  GenerateCall Decode() {
    GenerateCall call;
    call.stream = stream_;
    EXPECT_TRUE(DecodeOutput(wire_, kVocabulary, call).ok());
    return call;
  }

  bool stream_ = true;
  v1::OutputOptions wire_;
};

TEST_F(OutputTest, LogprobsAreWantedOrNot) {
  EXPECT_FALSE(Decode().request.output.logprobs.has_value());
  wire_.set_logprobs(0);
  wire_.set_prompt_logprobs(kMaxLogprobs);
  wire_.set_prompt_logprob_start(3);
  wire_.add_logprob_token_ids(7);
  const OutputWish wish = Decode().request.output;
  EXPECT_EQ(wish.logprobs->top_count, 0);
  EXPECT_EQ(wish.prompt_logprobs->top_count, kMaxLogprobs);
  EXPECT_THAT(wish.prompt_logprobs->ids, ElementsAre(7));
  EXPECT_EQ(wish.prompt_logprob_start, 3);
  wire_.set_logprobs(kMaxLogprobs + 1);
  EXPECT_THAT(Fault(), StartsWith("output.logprobs: wanted 0 to 20"));
  wire_.set_logprobs(-1);
  EXPECT_THAT(Fault(), StartsWith("output.logprobs: "));
}

// What would be without effect is refused, so that nobody believes in it.
TEST_F(OutputTest, WishesThatHangInTheAirAreRefused) {
  wire_.add_logprob_token_ids(7);
  EXPECT_THAT(Fault(), StartsWith("output.logprob_token_ids: "));
  wire_.Clear();
  wire_.set_prompt_logprob_start(1);
  EXPECT_THAT(Fault(), StartsWith("output.prompt_logprob_start: "));
  wire_.Clear();
  wire_.set_truncate_side(v1::TRUNCATE_SIDE_LEFT);
  EXPECT_THAT(Fault(), StartsWith("output.truncate_side: "));
  wire_.Clear();
  wire_.set_progress(true);
  EXPECT_TRUE(Decode().request.output.progress);
  stream_ = false;
  EXPECT_THAT(Fault(), StartsWith("output.progress: "));
}

TEST_F(OutputTest, Truncation) {
  EXPECT_EQ(Decode().truncation.most_tokens, 0);
  for (const int32_t most : {1, -1, 4096}) {
    wire_.set_truncate_prompt_tokens(most);
    EXPECT_EQ(Decode().truncation.most_tokens, most);
  }
  wire_.set_truncate_side(v1::TRUNCATE_SIDE_RIGHT);
  EXPECT_TRUE(Decode().truncation.from_right);
  for (const int32_t most : {0, -2}) {
    wire_.set_truncate_prompt_tokens(most);
    EXPECT_THAT(Fault(), StartsWith("output.truncate_prompt_tokens: "));
  }
  wire_.set_truncate_prompt_tokens(5);
  wire_.set_truncate_side(static_cast<v1::TruncateSide>(9));
  EXPECT_THAT(Fault(), StartsWith("output.truncate_side: "));
}

}  // namespace
}  // namespace kvasir
