#include "engine/backend/cpu/packed_weight.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/backend/random_weights.h"

namespace kvasir {
namespace {

class PackedWeightOfType : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(AllTypes, PackedWeightOfType,
                         testing::ValuesIn(kAllTypes), [](const auto& test) {
                           return std::string(DTypeName(test.param));
                         });

TEST_P(PackedWeightOfType, UnpacksEveryRowAsTheFileMeansIt) {
  // The embedding is read from the packed form, also in the padded last group.
  for (const int64_t rows : {1, 15, 16, 17, 50}) {
    const TestMatrix matrix = MakeMatrix(GetParam(), rows, 768, 11 + rows);
    auto packed = PackedWeight::Pack(matrix.host);
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->rows(), rows);
    EXPECT_EQ((*packed)->columns(), 768);
    EXPECT_EQ((*packed)->type(), GetParam());
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> wanted = Dequantized(matrix.host, row);
      std::vector<float> found(768);
      (*packed)->UnpackRow(row, 1.0f, absl::MakeSpan(found));
      ASSERT_EQ(found, wanted) << "row " << row << " of " << rows;
      for (float& value : wanted) value *= 0.3f;
      (*packed)->UnpackRow(row, 0.3f, absl::MakeSpan(found));
      ASSERT_EQ(found, wanted) << "row " << row << " of " << rows;
    }
  }
}

TEST_P(PackedWeightOfType, UnpacksAGroupColumnByColumnWithZerosBehindTheEnd) {
  // Rows that only fill up the last group must never give NaN or a stray write.
  const TestMatrix matrix = MakeMatrix(GetParam(), 18, 256, 3);
  auto packed = PackedWeight::Pack(matrix.host);
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<float> found(256 * kGroupRows);
  for (int lane = 0; lane < kGroupRows; ++lane) {
    UnpackLane(GetParam(), (*packed)->Groups(1, 1), lane, kGroupRows,
               found.data() + lane);
  }
  for (int64_t lane = 0; lane < kGroupRows; ++lane) {
    const std::vector<float> wanted = lane < 2
                                          ? Dequantized(matrix.host, 16 + lane)
                                          : std::vector<float>(256);
    for (int64_t column = 0; column < 256; ++column) {
      ASSERT_EQ(found[column * kGroupRows + lane], wanted[column])
          << lane << " " << column;
    }
  }
}

TEST_P(PackedWeightOfType, TakesTheBytesOfTheFilePlusPadding) {
  // Weights stay quantized in memory: a packed form that grew would lose the
  // bandwidth that quantization is for.
  const HostMatrix host = MakeMatrix(GetParam(), 160, 2048, 5).host;
  auto packed = PackedWeight::Pack(MakeMatrix(GetParam(), 160, 2048, 5).host);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const int64_t file_bytes = host.rows * host.RowBytes();
  EXPECT_GE((*packed)->memory_bytes(), file_bytes);
  EXPECT_LE((*packed)->memory_bytes(), file_bytes + file_bytes / 30);
}

TEST(PackedWeight, ReportsExactlyTheBytesOfItsGroups) {
  // memory_bytes() goes into the operator's sum of model memory.
  const TestMatrix matrix = MakeMatrix(DType::kQ4_1, 17, 96, 1);
  auto packed = PackedWeight::Pack(matrix.host);
  ASSERT_TRUE(packed.ok());
  // Two groups of three blocks: 64 bytes of scales and 256 of levels a block.
  EXPECT_EQ((*packed)->memory_bytes(), 2 * 3 * (64 + 256));
}

TEST(PackedWeight, RefusesAnUnknownTypeByNumber) {
  // A file written by a newer program must not be read as another type.
  const uint8_t byte = 0;
  const HostMatrix matrix{static_cast<DType>(kDTypeCount), 1, 1, &byte};
  const auto packed = PackedWeight::Pack(matrix);
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(packed.status().message()),
              testing::HasSubstr("type number 11"));
}

TEST(PackedWeight, SaysHowMuchMemoryWasMissing) {
  // Nothing is read before memory is there, so the pointer may be anything.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the process when memory runs out";
#endif
  const uint8_t byte = 0;
  const HostMatrix matrix{DType::kF32, int64_t{1} << 30, int64_t{1} << 24,
                          &byte};
  const auto packed = PackedWeight::Pack(matrix);
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(packed.status().message()),
              testing::HasSubstr("72057594037927936 bytes (F32"));
}

}  // namespace
}  // namespace kvasir
