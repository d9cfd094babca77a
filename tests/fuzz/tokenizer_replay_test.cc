#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/fuzz/tokenizer_input.h"

namespace kvasir {
namespace {

// Inputs that reach code which few others reach stay solved in every build,
// with or without a fuzzer.
TEST(TokenizerReplay, KeptInputsBreakNoPromise) {
  const std::filesystem::path corpus =
      std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/fuzz/corpus/tokenizer";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path(), std::ios::binary);
    // An allocation of exactly this size, so that a read past it is seen.
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_GT(RunTokenizerInput(bytes), 0u);
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace kvasir
