// Contract C2 at the level of the forward pass: the logits of a position are a
// function of weights, token ids and cache version alone, bit for bit. The
// engine's level has a test of its own; this one says whether kernels are to
// blame.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/cpu/cpu_backend.h"
#include "tests/support/model_fixture.h"
#include "tests/support/paged_sequences.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using Logits = PagedSequences::Logits;

constexpr int32_t kThreads[] = {1, 2, 4};
constexpr int64_t kPoolBlocks = 400;

std::vector<TokenId> Prompt(int64_t length, uint64_t seed) {
  TestRandom random(seed);
  std::vector<TokenId> tokens(length);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random.Below(400));
  }
  return tokens;
}

// The first differing position, or -1. Compares bits: -0 is not 0.
int64_t FirstDifference(const Logits& a, const Logits& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) !=
            0) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

struct ExactnessCase {
  DType weights;
  KvType kv;
  ActivationType activations;
  int32_t hidden_dim;
  bool force_scalar = false;
};
std::string Name(const ExactnessCase& which) {
  return std::string(DTypeName(which.weights)) +
         (which.kv == KvType::kF16 ? "KvF16" : "KvF32") +
         (which.activations == ActivationType::kQ8 ? "ActQ8" : "ActF32") +
         (which.force_scalar ? "Scalar" : "");
}
void PrintTo(const ExactnessCase& which, std::ostream* out) {
  *out << Name(which);
}

class TransformerExactness : public testing::TestWithParam<ExactnessCase> {
 protected:
  TransformerExactness()
      : bytes_(TinyModelBytes({.matrix_type = GetParam().weights,
                               .hidden_dim = GetParam().hidden_dim})) {
    for (const int32_t threads : kThreads) {
      models_.push_back(std::make_unique<ModelFixture>(
          absl::Span<const uint8_t>(
              reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()),
          CpuBackendOptions{.thread_count = threads,
                            .activations = GetParam().activations,
                            .force_scalar = GetParam().force_scalar},
          GetParam().kv));
    }
  }

  PagedSequences Sequences(size_t model, uint64_t seed = 1) {
    return {&models_[model]->transformer(), models_[model]->layout(),
            kPoolBlocks, seed};
  }

  Logits Alone(const std::vector<TokenId>& tokens, int64_t chunk,
               size_t model) {
    PagedSequences sequences = Sequences(model);
    sequences.Finish(sequences.Add(tokens), chunk);
    return sequences.logits(0);
  }

  std::string bytes_;
  std::vector<std::unique_ptr<ModelFixture>> models_;  // as kThreads
};

// A sum whose order depends on the rows of a step or on who computes them
// changes the last bit, and with it, some thousand tokens later, the text. The
// prompt is longer than a span of the attention.
TEST_P(TransformerExactness, ChunksAndThreadsChangeNoBit) {
  const std::vector<TokenId> tokens = Prompt(600, 11);
  const Logits wanted = Alone(tokens, 1, 0);
  for (size_t model = 0; model < models_.size(); ++model) {
    for (const int64_t chunk : {1, 16, 64, 250}) {
      EXPECT_EQ(FirstDifference(Alone(tokens, chunk, model), wanted), -1)
          << "position of the first difference, with " << kThreads[model]
          << " threads and chunks of " << chunk;
    }
  }
}

// Sequences of all lengths join and leave; each step holds random numbers of
// rows of each.
TEST_P(TransformerExactness, CompanyInABatchChangesNoBit) {
  const std::vector<int64_t> lengths = {1, 15, 16, 17, 33, 64, 130, 200};
  std::vector<Logits> wanted;
  for (size_t i = 0; i < lengths.size(); ++i) {
    wanted.push_back(Alone(Prompt(lengths[i], i), 64, 0));
  }
  for (size_t model = 0; model < models_.size(); ++model) {
    const uint64_t seed = 100 + model;
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestRandom random(seed);
    PagedSequences sequences = Sequences(model, seed);
    for (size_t i = 0; i < lengths.size(); ++i) {
      sequences.Add(Prompt(lengths[i], i));
    }
    for (int64_t left = 1; left > 0;) {
      left = 0;
      std::vector<int64_t> counts;
      for (int64_t i = 0; i < sequences.size(); ++i) {
        const int64_t most = std::min<int64_t>(sequences.Remaining(i), 24);
        counts.push_back(random.Below(most + 1));
        left += sequences.Remaining(i) - counts.back();
      }
      sequences.Step(counts);
    }
    for (int64_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(FirstDifference(sequences.logits(i), wanted[i]), -1)
          << "sequence " << i << ", " << kThreads[model] << " threads";
    }
  }
}

// A prefix that another sequence computed, in other chunks and other company,
// is as good as one's own.
TEST_P(TransformerExactness, SharedPrefixChangesNoBit) {
  const std::vector<TokenId> first = Prompt(300, 21);
  std::vector<TokenId> second = Prompt(300, 22);
  for (const int64_t shared : {16, 112, 288}) {
    std::copy(first.begin(), first.begin() + shared, second.begin());
    const Logits cold = Alone(second, 16, 0);
    for (size_t model = 0; model < models_.size(); ++model) {
      PagedSequences sequences = Sequences(model);
      sequences.Finish(sequences.Add(first), 50);
      const int64_t warm = sequences.AddSharing(second, 0, shared);
      sequences.Finish(warm, 7);
      EXPECT_EQ(FirstDifference(sequences.logits(warm),
                                Logits(cold.begin() + shared, cold.end())),
                -1)
          << shared << " shared tokens, " << kThreads[model] << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, TransformerExactness,
    testing::Values(
        ExactnessCase{DType::kF32, KvType::kF32, ActivationType::kF32, 64},
        ExactnessCase{DType::kF32, KvType::kF16, ActivationType::kQ8, 64},
        ExactnessCase{DType::kQ8_0, KvType::kF16, ActivationType::kQ8, 64},
        ExactnessCase{DType::kQ4_1, KvType::kF16, ActivationType::kQ8, 64},
        ExactnessCase{DType::kQ4_1, KvType::kF32, ActivationType::kF32, 64},
        ExactnessCase{DType::kQ4_K, KvType::kF16, ActivationType::kQ8, 256}),
    [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace kvasir
