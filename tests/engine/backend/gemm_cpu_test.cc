#include "engine/backend/cpu/gemm_cpu.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "cache/base/check.h"
#include "engine/backend/cpu/gemm_kernels.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/cpu/thread_pool.h"
#include "tests/engine/backend/random_weights.h"

namespace kvasir {
namespace {

std::unique_ptr<Weight> Packed(const CpuGemm& gemm, const HostMatrix& matrix) {
  auto weight = gemm.Pack(matrix);
  KV_CHECK(weight.ok()) << weight.status().ToString();
  return *std::move(weight);
}

Activations View(std::vector<float>& values, int64_t rows) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  return {values.data(), rows, columns, columns};
}

// One product of all `input`'s rows, in calls of at most `chunk` rows.
std::vector<float> Product(CpuGemm& gemm, const Weight& weight,
                           std::vector<float> input, int64_t chunk,
                           bool fine = false) {
  const int64_t rows = static_cast<int64_t>(input.size()) / weight.columns();
  std::vector<float> output(rows * weight.rows());
  for (int64_t row = 0; row < rows; row += chunk) {
    const int64_t count = std::min(chunk, rows - row);
    LinearOutput out;
    out.weight = &weight;
    out.out = View(output, rows).Rows(row, count);
    out.fine_activations = fine;
    gemm.Linear(View(input, rows).Rows(row, count), {&out, 1});
  }
  return output;
}

class CpuGemmOfType : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(AllTypes, CpuGemmOfType, testing::ValuesIn(kAllTypes),
                         [](const auto& test) {
                           return std::string(DTypeName(test.param));
                         });

// How activations enter a product.
struct Precision {
  ActivationType activations;
  bool fine;
};

TEST_P(CpuGemmOfType, RowsRoundAlikeInAnyCompanyOnAnyThreadAndTarget) {
  // Contract C2: a token computed in decode must be bit-equal to the same token
  // in a prefill chunk, or a cached prefix changes the answer.
  constexpr int64_t kRows = 37;
  constexpr int64_t kColumns = 256;
  const TestMatrix matrix = MakeMatrix(GetParam(), 91, kColumns, 2);
  const std::vector<float> input = RandomFloats(kRows * kColumns, 3);
  for (const auto [activations, fine] :
       {Precision{ActivationType::kQ8, false},
        Precision{ActivationType::kQ8, true},
        Precision{ActivationType::kF32, false}}) {
    ThreadPool one(1);
    CpuGemm scalar(&one, activations, /*force_scalar=*/true);
    const std::unique_ptr<Weight> weight = Packed(scalar, matrix.host);
    const std::vector<float> wanted = Product(scalar, *weight, input, 1, fine);
    for (const int32_t threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      for (const GemmKernels* kernels : UsableGemmKernels()) {
        CpuGemm gemm(&pool, activations, *kernels);
        const bool slow = kernels == &ScalarGemmKernels();
        for (int64_t chunk = 1; chunk <= kRows; chunk += slow ? 18 : 1) {
          const std::vector<float> found =
              Product(gemm, *weight, input, chunk, fine);
          ASSERT_EQ(std::memcmp(found.data(), wanted.data(),
                                wanted.size() * sizeof(float)),
                    0)
              << kernels->name << ", " << threads << " threads, " << chunk
              << " rows a call" << (fine ? ", fine" : "");
        }
      }
    }
  }
}

TEST_P(CpuGemmOfType, FineActivationsKeepSixteenBits) {
  // The logits are nobody's average: 8-bit activations in the last product are
  // the largest part of a model's divergence.
  constexpr int64_t kColumns = 512;
  const TestMatrix matrix = MakeMatrix(GetParam(), 64, kColumns, 17);
  const std::vector<float> input = RandomFloats(5 * kColumns, 18);
  ThreadPool pool(2);
  CpuGemm fast(&pool, ActivationType::kQ8, false);
  CpuGemm exact(&pool, ActivationType::kF32, false);
  const std::unique_ptr<Weight> weight = Packed(fast, matrix.host);
  const std::vector<float> coarse = Product(fast, *weight, input, 5);
  const std::vector<float> fine = Product(fast, *weight, input, 5, true);
  const std::vector<float> wanted = Product(exact, *weight, input, 5);
  double coarse_error = 0, fine_error = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    coarse_error += std::fabs(coarse[i] - wanted[i]);
    fine_error += std::fabs(fine[i] - wanted[i]);
  }
  // Each activation is rounded to a 127th of half a step instead of to half a
  // step: 254 times finer, less what f32 rounds.
  EXPECT_LE(fine_error, coarse_error / 100) << coarse_error;
  if (QuantFormatOf(GetParam()).scales == ScaleKind::kNone) {
    EXPECT_EQ(fine, wanted);
  }
}

TEST_P(CpuGemmOfType, EqualsTheProductInDoublePrecision) {
  // With f32 activations only the chain rounds; with 8-bit ones the error is
  // that of rounding each activation to 1/127 of its block's largest.
  constexpr int64_t kColumns = 512;
  const TestMatrix matrix = MakeMatrix(GetParam(), 40, kColumns, 4);
  const std::vector<float> input = RandomFloats(3 * kColumns, 5);
  ThreadPool pool(2);
  CpuGemm fast(&pool, ActivationType::kQ8, false);
  CpuGemm exact(&pool, ActivationType::kF32, false);
  const std::unique_ptr<Weight> weight = Packed(fast, matrix.host);
  const std::vector<float> by_q8 = Product(fast, *weight, input, 3);
  const std::vector<float> by_f32 = Product(exact, *weight, input, 3);
  for (int64_t i = 0; i < 3 * 40; ++i) {
    const std::vector<float> row = Dequantized(matrix.host, i % 40);
    const float* activations = input.data() + i / 40 * kColumns;
    double wanted = 0, magnitude = 0, square = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      const double term = static_cast<double>(row[c]) * activations[c];
      wanted += term;
      magnitude += std::fabs(term);
      square += static_cast<double>(row[c]) * row[c];
    }
    EXPECT_NEAR(by_f32[i], wanted, magnitude * kColumns * 0x1p-24);
    // A level is off by a uniform half step: sigma = step / sqrt(12), and no
    // block of 32 normal numbers reaches 5.
    const double sigma = 5.0 / 127 / std::sqrt(12.0) * std::sqrt(square);
    EXPECT_NEAR(by_q8[i], wanted, 6 * sigma);
  }
}

TEST_P(CpuGemmOfType, ARowOfZerosGivesTheBias) {
  // Padding rows and dead units: a scale of zero must not become NaN.
  const TestMatrix matrix = MakeMatrix(GetParam(), 20, 256, 6);
  ThreadPool pool(1);
  CpuGemm gemm(&pool, ActivationType::kQ8, false);
  const std::unique_ptr<Weight> weight = Packed(gemm, matrix.host);
  std::vector<float> input(256, 0.0f), output(20, 9.0f);
  const std::vector<float> bias = RandomFloats(20, 7);
  const LinearOutput out{weight.get(), bias, View(output, 1), false};
  gemm.Linear(View(input, 1), {&out, 1});
  EXPECT_EQ(output, bias);
}

TEST(CpuGemm, ConcurrentWorkersSplitAGroupAsItsMembersAlone) {
  // Query, key and value share one fork-join; pieces run over the border
  // between two outputs of different types and sizes.
  constexpr int64_t kColumns = 256;
  const std::pair<DType, int64_t> kMembers[] = {{DType::kQ4_K, 130},
                                                {DType::kF16, 17},
                                                {DType::kQ6_K, 1},
                                                {DType::kQ8_0, 64}};
  for (const int64_t rows : {1, 5, 19}) {
    std::vector<float> input = RandomFloats(rows * kColumns, 8);
    ThreadPool pool(3);
    CpuGemm gemm(&pool, ActivationType::kQ8, false);
    std::vector<std::unique_ptr<Weight>> weights;
    std::vector<std::vector<float>> outputs;
    std::vector<LinearOutput> group;
    for (const auto& [type, size] : kMembers) {
      weights.push_back(Packed(gemm, MakeMatrix(type, size, kColumns, 9).host));
      outputs.emplace_back(rows * size);
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      group.push_back({weights[i].get(), {}, View(outputs[i], rows), false});
    }
    gemm.Linear(View(input, rows), group);
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(outputs[i], Product(gemm, *weights[i], input, rows)) << i;
    }
  }
}

TEST(CpuGemm, AddsTheBiasAndThenWhatTheOutputHolds) {
  // The residual is added in the same pass; its place in the order of
  // roundings is part of the contract.
  const TestMatrix matrix = MakeMatrix(DType::kQ5_1, 33, 64, 10);
  ThreadPool pool(2);
  CpuGemm gemm(&pool, ActivationType::kQ8, false);
  const std::unique_ptr<Weight> weight = Packed(gemm, matrix.host);
  std::vector<float> input = RandomFloats(2 * 64, 11);
  const std::vector<float> bias = RandomFloats(33, 12);
  const std::vector<float> plain = Product(gemm, *weight, input, 2);
  const std::vector<float> residual = RandomFloats(2 * 33, 13);
  std::vector<float> output = residual;
  const LinearOutput out{weight.get(), bias, View(output, 2), true};
  gemm.Linear(View(input, 2), {&out, 1});
  for (size_t i = 0; i < output.size(); ++i) {
    const float with_bias = plain[i] + bias[i % 33];
    EXPECT_EQ(output[i], residual[i] + with_bias) << i;
  }
}

TEST(CpuGemm, WritesOnlyItsColumnsOfAWiderMatrix) {
  // q, k and v are columns of one buffer; the padded last group must not spill
  // into the neighbour.
  const TestMatrix matrix = MakeMatrix(DType::kQ4_0, 21, 96, 14);
  ThreadPool pool(2);
  CpuGemm gemm(&pool, ActivationType::kQ8, false);
  const std::unique_ptr<Weight> weight = Packed(gemm, matrix.host);
  for (const int64_t rows : {1, 9}) {
    std::vector<float> wide_input = RandomFloats(rows * 128, 15);
    std::vector<float> input;
    for (int64_t r = 0; r < rows; ++r) {
      input.insert(input.end(), wide_input.begin() + r * 128 + 16,
                   wide_input.begin() + r * 128 + 16 + 96);
    }
    const std::vector<float> wanted = Product(gemm, *weight, input, rows);
    std::vector<float> wide(rows * 50, -3.0f);
    const LinearOutput out{
        weight.get(), {}, View(wide, rows).Columns(7, 21), false};
    gemm.Linear(View(wide_input, rows).Columns(16, 96), {&out, 1});
    for (int64_t i = 0; i < rows * 50; ++i) {
      const int64_t column = i % 50 - 7;
      const float want =
          column >= 0 && column < 21 ? wanted[i / 50 * 21 + column] : -3.0f;
      EXPECT_EQ(wide[i], want) << i;
    }
  }
}

TEST(CpuGemm, NoRowsIsNoWork) {
  // A step may have no rows that need logits.
  ThreadPool pool(2);
  CpuGemm gemm(&pool, ActivationType::kQ8, false);
  const std::unique_ptr<Weight> weight =
      Packed(gemm, MakeMatrix(DType::kQ8_0, 16, 32, 1).host);
  const LinearOutput out{weight.get(), {}, {nullptr, 0, 16, 16}, false};
  gemm.Linear({nullptr, 0, 32, 32}, {&out, 1});
}

TEST(CpuGemm, EmbedsTheRowsOfTheIds) {
  // Gemma scales its embedding, and ids repeat within a prompt.
  const TestMatrix matrix = MakeMatrix(DType::kQ6_K, 100, 256, 16);
  ThreadPool pool(1);
  CpuGemm gemm(&pool, ActivationType::kQ8, false);
  const std::unique_ptr<Weight> table = Packed(gemm, matrix.host);
  const std::vector<TokenId> ids = {99, 0, 17, 17};
  std::vector<float> output(ids.size() * 256);
  gemm.Embed(*table, ids, 16.0f, View(output, 4));
  for (size_t i = 0; i < output.size(); ++i) {
    EXPECT_EQ(output[i],
              16.0f * Dequantized(matrix.host, ids[i / 256])[i % 256]);
  }
}

TEST(CpuGemm, RandomShapesAgreeWithThePortableKernels) {
  // Shapes nobody thought of: groups cut short, single blocks, uneven pieces.
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  ThreadPool one(1);
  ThreadPool three(3);
  for (int round = 0; round < 60; ++round) {
    const DType type = kAllTypes[random() % kDTypeCount];
    const int64_t unit = DTypeBlockElements(type);
    const int64_t columns = unit * (1 + random() % (unit == 1 ? 300 : 6));
    const int64_t rows = 1 + random() % 20;
    const int64_t outputs = 1 + random() % 150;
    const auto activations = static_cast<ActivationType>(random() % 2);
    SCOPED_TRACE(testing::Message()
                 << DTypeName(type) << " " << outputs << " x " << columns
                 << ", " << rows << " rows");
    CpuGemm scalar(&one, activations, true);
    CpuGemm fast(&three, activations, false);
    const TestMatrix matrix = MakeMatrix(type, outputs, columns, random());
    const std::vector<float> input = RandomFloats(rows * columns, random());
    const std::unique_ptr<Weight> weight = Packed(fast, matrix.host);
    ASSERT_EQ(Product(fast, *weight, input, rows),
              Product(scalar, *weight, input, rows));
  }
}

TEST(CpuGemm, NamesItsTarget) {
  // The name is part of a cache version's fingerprint.
  ThreadPool pool(1);
  EXPECT_STREQ(CpuGemm(&pool, ActivationType::kQ8, true).target(), "scalar");
  EXPECT_STREQ(CpuGemm(&pool, ActivationType::kQ8, false).target(),
               UsableGemmKernels().front()->name);
}

}  // namespace
}  // namespace kvasir
