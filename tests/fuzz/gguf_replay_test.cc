#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/fuzz/gguf_input.h"
#include "tests/support/malformed_gguf.h"

namespace kvasir {
namespace {

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Replay(const std::string& bytes) {
  // An allocation of exactly this size, so that a read past the end is seen.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  return RunGgufInput(copy);
}

// Inputs that once broke something, or that reach code which few others reach,
// stay solved in every build, with or without a fuzzer.
TEST(GgufReplay, KeptInputsBreakNoPromise) {
  const std::filesystem::path corpus =
      std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/fuzz/corpus/gguf";
  int count = 0, whole = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().filename().string());
    whole += Replay(Contents(entry.path()));
    ++count;
  }
  EXPECT_GE(count, 30);
  EXPECT_GE(whole, 2) << "the whole models no longer reach the kernels";
}

// The malformed files of LOAD-1 are made, not kept: also the ones that cover
// nothing new.
TEST(GgufReplay, MalformedFilesBreakNoPromise) {
  for (const MalformedGguf& malformed : MalformedGgufCases()) {
    SCOPED_TRACE(malformed.name);
    GgufWriter writer = MakeSmallGguf();
    malformed.break_it(writer);
    EXPECT_FALSE(Replay(writer.Build()));
  }
}

}  // namespace
}  // namespace kvasir
