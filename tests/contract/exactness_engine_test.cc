// Contract C2, FIELD_CASES DET-1, through the whole engine: the logits that
// each token is drawn from are bit-equal whatever the batch, the chunks, the
// threads, the cache's contents and the pressure on it. On made-up models of
// several weight types, and on SmolLM2 where KVASIR_TEST_MODEL names its file.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/support/exactness_rig.h"
#include "tests/support/loop_harness.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr size_t kCases = 16;

struct Subject {
  std::string name;
  DType matrix_type = DType::kF32;
  std::string kv_type = "f16";
  std::string activations = "q8";
  bool real = false;  // SmolLM2 instead of a made-up model
};

void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.name;
}

class ExactnessTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    const Subject& subject = GetParam();
    if (subject.real) {
      const char* path = std::getenv("KVASIR_TEST_MODEL");
      if (path == nullptr) GTEST_SKIP() << "KVASIR_TEST_MODEL is not set";
      options_.model_path = path;
      answer_tokens_ = 8;
    } else {
      options_.model_path =
          TempPath(absl::StrCat("exact_", subject.name, ".gguf"));
      ASSERT_TRUE(WriteTinyModel({.matrix_type = subject.matrix_type},
                                 options_.model_path)
                      .ok());
    }
    options_.cache_blocks = 400;
    options_.kv_type = subject.kv_type;
    options_.activations = subject.activations;
    options_.thread_count = 1;
    MakeCases();
    expected_ = ExactnessRig(options_).RunAlone(cases_);
  }

  // Prompts around block borders, some with a common beginning; greedy and
  // seeded.
  void MakeCases() {
    for (size_t i = 0; i < kCases; ++i) {
      const int64_t length =
          std::vector<int64_t>{1, 15, 16, 17, 33, 64, 90, 150}[i % 8];
      ExactnessCase one;
      one.prompt = RandomPrompt(i / 4, length);
      one.max_tokens = answer_tokens_ + static_cast<int64_t>(i % 5);
      one.sampling = {.temperature = i % 2 == 0 ? 0.0f : 0.8f,
                      .top_k = i % 3 == 0 ? 40 : 0,
                      .top_p = i % 4 == 0 ? 0.9f : 1.0f,
                      .typical_p = i % 7 == 0 ? 0.9f : 1.0f,
                      .seed = 17 + i,
                      .frequency_penalty = i % 5 == 0 ? 0.4f : 0.0f,
                      .repetition_penalty = i % 5 < 2 ? 1.2f : 1.0f};
      cases_.push_back(one);
    }
  }

  void Expect(const std::vector<ExactnessAnswer>& answers,
              const std::string& how) {
    ASSERT_EQ(answers.size(), expected_.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].ids, expected_[i].ids) << how << ", case " << i;
      EXPECT_TRUE(SameBits(answers[i], expected_[i])) << how << ", case " << i;
    }
  }

  // Arrivals that make sequences join and leave amid others' work.
  static std::vector<int64_t> Staggered() {
    std::vector<int64_t> arrivals;
    for (size_t i = 0; i < kCases; ++i) {
      arrivals.push_back(static_cast<int64_t>(i * 5 % kCases));
    }
    return arrivals;
  }

  EngineOptions options_;
  int64_t answer_tokens_ = 24;
  std::vector<ExactnessCase> cases_;
  std::vector<ExactnessAnswer> expected_;
};

// If cases did not differ, no comparison would mean anything.
TEST_P(ExactnessTest, CasesHaveAnswersOfTheirOwn) {
  EXPECT_FALSE(SameBits(expected_[0], expected_[1]));
  EXPECT_NE(expected_[6].ids, expected_[14].ids);
  EXPECT_EQ(expected_[3].logits.size(), expected_[3].ids.size());
}

TEST_P(ExactnessTest, InABatchThatJoinsAndLeaves) {
  options_.prefix_caching = false;
  ExactnessRig rig(options_);
  Expect(rig.Run(cases_, Staggered()), "staggered");
  Expect(rig.Run(cases_), "all at once");
}

TEST_P(ExactnessTest, WithAnyPrefillChunk) {
  options_.prefix_caching = false;
  for (const int32_t chunk : {5, 16, 64, 256}) {
    options_.prefill_chunk = chunk;
    ExactnessRig rig(options_);
    Expect(rig.Run(cases_, Staggered()), absl::StrCat("chunk ", chunk));
  }
}

TEST_P(ExactnessTest, WithAnyNumberOfThreads) {
  for (const int32_t threads : {2, 4}) {
    options_.thread_count = threads;
    ExactnessRig rig(options_);
    Expect(rig.Run(cases_, Staggered()), absl::StrCat(threads, " threads"));
  }
}

TEST_P(ExactnessTest, WithAndWithoutPrefixHits) {
  ExactnessRig rig(options_);
  Expect(rig.Run(cases_), "hits among each other");
  const std::vector<ExactnessAnswer> warm = rig.Run(cases_, Staggered());
  Expect(warm, "warm");
  for (size_t i = 0; i < warm.size(); ++i) {
    EXPECT_EQ(warm[i].usage.cached_tokens,
              (static_cast<int64_t>(cases_[i].prompt.size()) - 1) / 16 * 16);
  }
  rig.Flush();
  Expect(rig.RunAlone(cases_), "flushed, then alone");
}

// A warmed block is a computed one, bit for bit: whoever hits it cannot tell,
// whatever is decoded beside the warm-up and however it is cut.
TEST_P(ExactnessTest, AfterAWarmUp) {
  for (const int32_t chunk : {5, 256}) {
    options_.prefill_chunk = chunk;
    ExactnessRig rig(options_);
    std::vector<WarmPrefix> prefixes;
    for (const ExactnessCase& one : cases_) {
      if (one.prompt.size() >= 16) prefixes.push_back({.tokens = one.prompt});
    }
    rig.Warm(prefixes, 3);
    const std::vector<ExactnessAnswer> warm = rig.Run(cases_, Staggered());
    Expect(warm, absl::StrCat("warmed in chunks of ", chunk));
    for (size_t i = 0; i < warm.size(); ++i) {
      EXPECT_EQ(warm[i].usage.cached_tokens,
                (static_cast<int64_t>(cases_[i].prompt.size()) - 1) / 16 * 16);
    }
    // And what is warmed while others are answered.
    rig.Flush();
    rig.BeginWarm(prefixes, 2);
    Expect(rig.Run(cases_, Staggered()), "beside a warm-up");
    Expect(rig.Run(cases_), "after it");
  }
}

// C6: blocks that move, go and come back change no bit.
TEST_P(ExactnessTest, WhileTheCacheIsResized) {
  ExactnessRig rig(options_);
  rig.KeepResizing({24, 200, 40, 120});
  for (int round = 0; round < 3; ++round) {
    Expect(rig.Run(cases_, Staggered()), absl::StrCat("round ", round));
  }
  EXPECT_GE(rig.resizes_done(), 3);
  EXPECT_GT(rig.relocated_blocks(), 0);
}

TEST_P(ExactnessTest, AfterPreemption) {
  cases_.resize(6);
  for (size_t i = 0; i < cases_.size(); ++i) {
    cases_[i].prompt = RandomPrompt(i, 20 + static_cast<int64_t>(i));
    cases_[i].max_tokens = 60;  // so that everybody grows
  }
  expected_ = ExactnessRig(options_).RunAlone(cases_);
  options_.cache_blocks = 9;
  for (const bool prefix_caching : {false, true}) {
    options_.prefix_caching = prefix_caching;
    ExactnessRig rig(options_);
    const std::vector<ExactnessAnswer> answers = rig.Run(cases_);
    Expect(answers, "under pressure");
    int32_t preemptions = 0;
    for (const ExactnessAnswer& answer : answers) {
      preemptions += answer.usage.preemption_count;
    }
    EXPECT_GT(preemptions, 0) << "no pressure, no test";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExactnessTest,
    ::testing::Values(Subject{.name = "F32"},
                      Subject{.name = "F32_kv32", .kv_type = "f32"},
                      Subject{.name = "F16", .matrix_type = DType::kF16},
                      Subject{.name = "Q8_0", .matrix_type = DType::kQ8_0},
                      Subject{.name = "Q4_1", .matrix_type = DType::kQ4_1},
                      Subject{.name = "Q4_1_a32",
                              .matrix_type = DType::kQ4_1,
                              .activations = "f32"},
                      Subject{.name = "SmolLM2", .real = true}),
    [](const ::testing::TestParamInfo<Subject>& info) {
      return info.param.name;
    });

}  // namespace
}  // namespace kvasir
