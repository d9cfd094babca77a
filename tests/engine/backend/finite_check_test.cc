#include "engine/backend/finite_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/backend/cpu/quant_formats.h"
#include "tests/support/quantize.h"

namespace kvasir {
namespace {

constexpr int64_t kRows = 9;
constexpr int64_t kColumns = 512;

absl::Status Check(DType type, const std::string& bytes) {
  return CheckFinite(
      {type, kRows, kColumns, reinterpret_cast<const uint8_t*>(bytes.data())});
}

std::string Valid(DType type) {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i));
  }
  return Quantize(type, values);
}

std::vector<DType> AllTypes() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

class FiniteCheckTest : public testing::TestWithParam<DType> {};

TEST_P(FiniteCheckTest, FiniteNumbersPass) {
  EXPECT_TRUE(Check(GetParam(), Valid(GetParam())).ok());
}

// The naive twin dequantizes everything. A bit flip in any byte of a block must
// be refused just when it makes a weight of it infinite or no number.
TEST_P(FiniteCheckTest, RefusesWhatDequantizesToNoFiniteNumber) {
  const DType type = GetParam();
  const std::string valid = Valid(type);
  const int64_t row_bytes = static_cast<int64_t>(valid.size()) / kRows;
  const int64_t row = 7;
  std::vector<float> weights(kColumns);
  int refused = 0;
  for (int64_t byte = 0; byte < row_bytes; ++byte) {
    std::string bytes = valid;
    bytes[row * row_bytes + byte] = '\x7f';
    const HostMatrix matrix = {type, kRows, kColumns,
                               reinterpret_cast<const uint8_t*>(bytes.data())};
    DequantizeRow(matrix, row, absl::MakeSpan(weights));
    bool is_finite = true;
    for (const float weight : weights) is_finite &= std::isfinite(weight);
    const absl::Status status = CheckFinite(matrix);
    ASSERT_EQ(status.ok(), is_finite) << "byte " << byte << ": " << status;
    if (is_finite) continue;
    ++refused;
    EXPECT_NE(status.message().find("row 7, column"), std::string::npos)
        << status;
  }
  if (type != DType::kF32 && type != DType::kBF16) {
    EXPECT_GT(refused, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FiniteCheckTest, testing::ValuesIn(AllTypes()),
                         [](const auto& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST(FiniteCheck, NamesThePlaceAndTheBits) {
  std::string halves = Valid(DType::kF16);
  const uint16_t infinity = 0xfc00;
  std::memcpy(&halves[2 * (3 * kColumns + 77)], &infinity, sizeof(infinity));
  EXPECT_EQ(Check(DType::kF16, halves).message(),
            "row 3, column 77: wanted a finite number, found 0xfc00 (F16)");
  std::string floats = Valid(DType::kF32);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(&floats[4 * (8 * kColumns + 511)], &nan, sizeof(nan));
  EXPECT_EQ(Check(DType::kF32, floats).message(),
            "row 8, column 511: wanted a finite number, found 0x7fc00000 "
            "(F32)");
  std::string blocks = Valid(DType::kQ4_1);
  const uint16_t half_nan = 0x7e00;
  const size_t block = 5 * kColumns / 32 + 2;
  std::memcpy(&blocks[block * 20 + 2], &half_nan, sizeof(half_nan));
  EXPECT_EQ(Check(DType::kQ4_1, blocks).message(),
            "row 5, columns 64 to 95: wanted a finite min, found 0x7e00 "
            "(Q4_1)");
}

}  // namespace
}  // namespace kvasir
