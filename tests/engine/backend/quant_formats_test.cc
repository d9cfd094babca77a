#include "engine/backend/cpu/quant_formats.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/engine/backend/random_weights.h"

namespace kvasir {
namespace {

std::vector<uint8_t> FromHex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(QuantFormats, DequantizesTheGoldenBlocksBitForBit) {
  // A wrong nibble order or scale packing gives plausible numbers, and a model
  // that is merely worse; only another implementation's values tell.
  std::ifstream file(KVASIR_SOURCE_DIR "/tests/fixtures/quant_golden.txt");
  ASSERT_TRUE(file.is_open());
  std::set<std::string> seen;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name, block_hex, value_hex;
    fields >> name >> block_hex >> value_hex;
    const std::vector<uint8_t> blocks = FromHex(block_hex);
    const std::vector<uint8_t> bytes = FromHex(value_hex);
    std::vector<float> wanted(bytes.size() / sizeof(float));
    std::memcpy(wanted.data(), bytes.data(), bytes.size());
    for (const DType type : kAllTypes) {
      if (DTypeName(type) != name) continue;
      seen.insert(name);
      const HostMatrix matrix{type, 1, static_cast<int64_t>(wanted.size()),
                              blocks.data()};
      ASSERT_EQ(matrix.RowBytes(), static_cast<int64_t>(blocks.size()));
      EXPECT_EQ(Dequantized(matrix, 0), wanted) << name;
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kDTypeCount) - 1);  // not F32
}

TEST(QuantFormats, OnlyAddingAMinRounds) {
  // The kernels multiply levels by a scale and rely on that product, and on the
  // scale of a K type, being exact.
  for (const DType type : kAllTypes) {
    const QuantFormat format = QuantFormatOf(type);
    if (format.scales == ScaleKind::kNone) continue;
    const TestMatrix matrix = MakeMatrix(type, 1, 2048, 7);
    for (int64_t index = 0; index < 64; ++index) {
      const QuantBlock block = ReadQuantBlock(type, matrix.host.data, index);
      const BlockFactors factors = FactorsOf(format.scales, block.scales);
      for (int i = 0; i < kBlockWeights; ++i) {
        const double exact =
            static_cast<double>(factors.scale[i / kHalfWeights]) *
                (block.level[i] - format.offset) +
            factors.min;
        EXPECT_EQ(WeightValue(format, factors, i, block.level[i]),
                  static_cast<float>(exact))
            << DTypeName(type);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
