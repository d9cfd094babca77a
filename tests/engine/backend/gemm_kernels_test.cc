#include "engine/backend/cpu/gemm_kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"
#include "tests/engine/backend/random_weights.h"

namespace kvasir {
namespace {

std::vector<Q8Block> Quantized(const GemmKernels& kernels,
                               const std::vector<float>& values) {
  std::vector<Q8Block> out(values.size() / kBlockWeights);
  kernels.quantize_row(values.data(), static_cast<int64_t>(out.size()),
                       out.data(), 1);
  return out;
}

bool SameBytes(const std::vector<Q8Block>& a, const std::vector<Q8Block>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(Q8Block)) == 0;
}

// Rows side by side in one tile.
std::vector<Q8Block> QuantizedTile(const std::vector<float>& values,
                                   int64_t rows) {
  const int64_t blocks =
      static_cast<int64_t>(values.size()) / rows / kBlockWeights;
  std::vector<Q8Block> out(rows * blocks);
  for (int64_t r = 0; r < rows; ++r) {
    ScalarGemmKernels().quantize_row(values.data() + r * blocks * kBlockWeights,
                                     blocks, out.data() + r, rows);
  }
  return out;
}

class GemmKernelsOfType : public testing::TestWithParam<DType> {
 protected:
  int type() const { return static_cast<int>(GetParam()); }
  bool plain() const {
    return QuantFormatOf(GetParam()).scales == ScaleKind::kNone;
  }

  // The tile's products of the first `groups` groups by `kernels`.
  std::vector<float> Multiply(const GemmKernels& kernels,
                              const PackedWeight& weight, int64_t groups,
                              std::vector<float> values, int64_t rows) {
    std::vector<float> result(kTileRows * kTileOutputs, -7.0f);
    if (plain()) {
      kernels.multiply_f32[type()](
          weight.Groups(0, groups),
          {values.data(), rows, weight.columns(), weight.columns()},
          result.data());
    } else {
      kernels.multiply_q8[type()](weight.Groups(0, groups),
                                  QuantizedTile(values, rows).data(), rows,
                                  rows, result.data());
    }
    return result;
  }

  // Every set of kernels, every tile, against the portable ones.
  void ExpectSameBits(const TestMatrix& matrix,
                      const std::vector<float>& values) {
    auto weight = PackedWeight::Pack(matrix.host);
    ASSERT_TRUE(weight.ok()) << weight.status();
    const int64_t columns = matrix.host.columns;
    for (int64_t groups = 1; groups <= (*weight)->group_count(); ++groups) {
      for (int64_t rows = 1; rows <= kTileRows; ++rows) {
        const std::vector<float> tile(values.begin(),
                                      values.begin() + rows * columns);
        const std::vector<float> wanted =
            Multiply(ScalarGemmKernels(), **weight, groups, tile, rows);
        for (const GemmKernels* kernels : UsableGemmKernels()) {
          const std::vector<float> found =
              Multiply(*kernels, **weight, groups, tile, rows);
          ASSERT_EQ(std::memcmp(found.data(), wanted.data(),
                                wanted.size() * sizeof(float)),
                    0)
              << kernels->name << ", " << groups << " groups, " << rows
              << " rows";
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, GemmKernelsOfType,
                         testing::ValuesIn(kAllTypes), [](const auto& test) {
                           return std::string(DTypeName(test.param));
                         });

TEST_P(GemmKernelsOfType, AllTargetsGiveTheSameBitsForEveryTile) {
  // A cache filled on one machine may be read on another, and decode must round
  // like prefill: one row like eight.
  for (const int64_t columns : {256, 768}) {
    ExpectSameBits(MakeMatrix(GetParam(), 4 * kGroupRows, columns, 21),
                   RandomFloats(kTileRows * columns, 22));
  }
}

TEST_P(GemmKernelsOfType, UnpackAGroupToTheFilesValues) {
  // Products with f32 activations, the reference for quality, start from here.
  if (plain()) return;
  const TestMatrix matrix = MakeMatrix(GetParam(), kGroupRows, 768, 23);
  auto weight = PackedWeight::Pack(matrix.host);
  ASSERT_TRUE(weight.ok());
  for (const GemmKernels* kernels : UsableGemmKernels()) {
    std::vector<float> found(768 * kGroupRows);
    kernels->unpack[type()]((*weight)->Groups(0, 1), found.data());
    for (int64_t lane = 0; lane < kGroupRows; ++lane) {
      const std::vector<float> row = Dequantized(matrix.host, lane);
      for (int64_t column = 0; column < 768; ++column) {
        ASSERT_EQ(found[column * kGroupRows + lane], row[column])
            << kernels->name << " " << lane << " " << column;
      }
    }
  }
}

TEST_P(GemmKernelsOfType, ExtremeLevelsDoNotSaturate) {
  // 16-bit sums of byte products wrap or saturate just where every level and
  // every activation is at its end; ordinary data never goes there.
  std::vector<float> ends(kTileRows * 256);
  for (int pattern = 0; pattern < 3; ++pattern) {
    for (size_t i = 0; i < ends.size(); ++i) {
      const bool negative = pattern == 1 || (pattern == 2 && i % 3 == 0);
      ends[i] = negative ? -127.0f : 127.0f;
    }
    for (const int level : {0x00, 0x7F, 0x80, 0xFF}) {
      if (plain() && level > 0x7F) continue;  // not a number
      ExpectSameBits(MakeMatrix(GetParam(), kGroupRows, 256, 1, level), ends);
    }
  }
}

TEST_P(GemmKernelsOfType, FollowTheExactArithmeticOnTheirActivations) {
  // The portable kernels are the yardstick above, so they need one themselves:
  // the definition in double precision, where only the chain's roundings are
  // missing.
  constexpr int64_t kColumns = 1536;
  const TestMatrix matrix = MakeMatrix(GetParam(), kGroupRows, kColumns, 31);
  auto weight = PackedWeight::Pack(matrix.host);
  ASSERT_TRUE(weight.ok());
  const std::vector<float> values = RandomFloats(kColumns, 32);
  const std::vector<float> found =
      Multiply(ScalarGemmKernels(), **weight, 1, values, 1);
  const std::vector<Q8Block> blocks = Quantized(ScalarGemmKernels(), values);
  for (int64_t lane = 0; lane < kGroupRows; ++lane) {
    const std::vector<float> row = Dequantized(matrix.host, lane);
    double wanted = 0;
    double magnitude = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      const Q8Block& block = blocks[c / kBlockWeights];
      const double activation = plain() ? values[c]
                                        : static_cast<double>(block.scale) *
                                              block.level[c % kBlockWeights];
      wanted += row[c] * activation;
      magnitude += std::fabs(row[c] * activation);
    }
    // 2^-24 for each rounding of a term's way; measured below a tenth of that.
    const double steps = plain() ? kColumns : 3.0 * kColumns / kBlockWeights;
    EXPECT_NEAR(found[lane], wanted, magnitude * steps * 0x1p-24) << lane;
  }
}

TEST_P(GemmKernelsOfType, WhatIsNoNumberStaysNone) {
  // Rounded to some level it would become an answer like any other.
  const TestMatrix matrix = MakeMatrix(GetParam(), kGroupRows, 768, 41);
  auto weight = PackedWeight::Pack(matrix.host);
  ASSERT_TRUE(weight.ok());
  for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
    for (const size_t at : {0, 15, 300, 767}) {
      std::vector<float> values = RandomFloats(2 * 768, 42);
      values[768 + at] = bad;
      for (const GemmKernels* kernels : UsableGemmKernels()) {
        std::vector<float> result(kTileRows * kTileOutputs);
        if (plain()) {
          result = Multiply(*kernels, **weight, 1, values, 2);
        } else {
          std::vector<Q8Block> tile(2 * 768 / kBlockWeights);
          for (int64_t r = 0; r < 2; ++r) {
            kernels->quantize_row(values.data() + r * 768, 768 / kBlockWeights,
                                  tile.data() + r, 2);
          }
          kernels->multiply_q8[type()]((*weight)->Groups(0, 1), tile.data(), 2,
                                       2, result.data());
        }
        for (int64_t lane = 0; lane < kGroupRows; ++lane) {
          ASSERT_TRUE(std::isfinite(result[lane])) << kernels->name;
          ASSERT_FALSE(std::isfinite(result[kTileOutputs + lane]))
              << kernels->name << ", " << bad << " at " << at;
        }
      }
    }
  }
}

TEST(GemmKernels, QuantizeAlikeOnAllTargets) {
  // The same activations must give the same levels, sums included, wherever.
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::vector<float> values = RandomFloats(64 * kBlockWeights, seed);
  for (size_t b = 0; b < 64; ++b) {
    const float scale = std::ldexp(1.0f, static_cast<int>(b) * 3 - 100);
    for (int i = 0; i < kBlockWeights; ++i) values[b * 32 + i] *= scale;
  }
  values[5] = -values[5];
  values[40] = 0.5f;
  const std::vector<Q8Block> wanted = Quantized(ScalarGemmKernels(), values);
  for (const GemmKernels* kernels : UsableGemmKernels()) {
    EXPECT_TRUE(SameBytes(Quantized(*kernels, values), wanted))
        << kernels->name;
  }
}

TEST(GemmKernels, QuantizedActivationsAreWithinHalfAStep) {
  // A quantizer that truncates instead of rounding halves its quality without
  // any other sign.
  const std::vector<float> values = RandomFloats(100 * kBlockWeights, 8);
  for (const GemmKernels* kernels : UsableGemmKernels()) {
    const std::vector<Q8Block> blocks = Quantized(*kernels, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const Q8Block& block = blocks[i / kBlockWeights];
      EXPECT_NEAR(block.level[i % kBlockWeights] * block.scale, values[i],
                  block.scale * 0.50001f);
    }
    for (const Q8Block& block : blocks) {
      int32_t low = 0, high = 0;
      for (int i = 0; i < kHalfWeights; ++i) {
        low += block.level[i];
        high += block.level[i + kHalfWeights];
      }
      EXPECT_EQ(block.negative_sum, -(low + high));
      EXPECT_EQ(block.negative_high_sum, -high);
      EXPECT_EQ(block.scaled_sum, block.scale * static_cast<float>(low + high));
    }
  }
}

TEST(GemmKernels, ZeroAndTinyActivationsBecomeZeros) {
  // 127 over a subnormal is infinite, and infinity times zero is not a number.
  std::vector<float> values(3 * kBlockWeights, 0.0f);
  values[32] = 1e-40f;
  values[64] = -9e-37f;
  for (const GemmKernels* kernels : UsableGemmKernels()) {
    for (const Q8Block& block : Quantized(*kernels, values)) {
      EXPECT_EQ(block.scale, 0.0f) << kernels->name;
      EXPECT_EQ(block.scaled_sum, 0.0f);
      EXPECT_EQ(block.negative_sum, 0);
      for (const int8_t level : block.level) EXPECT_EQ(level, 0);
    }
  }
}

TEST(GemmKernels, ThePortableOnesAreAlwaysThereAndLast) {
  // The backend takes the front of the list; force_scalar takes the portable.
  const std::vector<const GemmKernels*> usable = UsableGemmKernels();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(usable.back(), &ScalarGemmKernels());
}

}  // namespace
}  // namespace kvasir
