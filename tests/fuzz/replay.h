#ifndef KVASIR_TESTS_FUZZ_REPLAY_H_
#define KVASIR_TESTS_FUZZ_REPLAY_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {

// Gives `run` each kept input of tests/fuzz/corpus/`name`: what reaches code
// that few others reach stays solved in every build, with or without a fuzzer.
// Returns how many there are.
template <typename Run>
int ReplayCorpus(const std::string& name, const Run& run) {
  const std::filesystem::path corpus =
      std::filesystem::path(KVASIR_SOURCE_DIR) / "tests/fuzz/corpus" / name;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path(), std::ios::binary);
    // An allocation of exactly this size, so that a read past it is seen.
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    run(bytes);
    ++count;
  }
  return count;
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_REPLAY_H_
