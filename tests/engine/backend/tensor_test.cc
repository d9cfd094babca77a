#include "engine/backend/tensor.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

struct Expected {
  DType type;
  std::string_view name;
  int64_t elements;
  int64_t bytes;
};

// From GGUF's description of its types, bits per weight times block over 8.
constexpr Expected kExpected[] = {
    {DType::kF32, "F32", 1, 4},       {DType::kF16, "F16", 1, 2},
    {DType::kBF16, "BF16", 1, 2},     {DType::kQ8_0, "Q8_0", 32, 34},
    {DType::kQ4_0, "Q4_0", 32, 18},   {DType::kQ4_1, "Q4_1", 32, 20},
    {DType::kQ5_0, "Q5_0", 32, 22},   {DType::kQ5_1, "Q5_1", 32, 24},
    {DType::kQ4_K, "Q4_K", 256, 144}, {DType::kQ5_K, "Q5_K", 256, 176},
    {DType::kQ6_K, "Q6_K", 256, 210},
};

TEST(DTypeTest, BlocksAreTheFileFormats) {
  // A wrong size shifts every tensor row after the first.
  for (const Expected& e : kExpected) {
    EXPECT_EQ(DTypeName(e.type), e.name);
    EXPECT_EQ(DTypeBlockElements(e.type), e.elements) << e.name;
    EXPECT_EQ(DTypeBlockBytes(e.type), e.bytes) << e.name;
    const HostMatrix matrix{e.type, 3, 512, nullptr};
    EXPECT_EQ(matrix.RowBytes(), 512 / e.elements * e.bytes) << e.name;
  }
}

TEST(DTypeDeathTest, RefusesANumberThatIsNoType) {
  EXPECT_DEATH(DTypeName(static_cast<DType>(200)), "found 200");
}

TEST(ActivationsTest, ViewsKeepTheStride) {
  std::vector<float> data(6 * 10);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const Activations all{data.data(), 6, 10, 10};
  const Activations part = all.Rows(2, 3).Columns(4, 5);
  EXPECT_EQ(part.rows, 3);
  EXPECT_EQ(part.columns, 5);
  EXPECT_EQ(part.Row(0)[0], 24.0f);
  EXPECT_EQ(part.Row(2)[4], 48.0f);
}

}  // namespace
}  // namespace kvasir
