#ifndef KVASIR_TESTS_SUPPORT_NAIVE_STOP_H_
#define KVASIR_TESTS_SUPPORT_NAIVE_STOP_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

// A piece of text as it reaches a stop matcher.
struct StopPiece {
  std::string_view text;
  bool may_stop = true;
};

struct NaiveStop {
  std::string text;  // of the whole output
  std::optional<size_t> matched;
};

// What a stop matcher makes of a whole text, by comparing every stop at every
// byte.
NaiveStop StopNaively(const std::vector<std::string>& stops, bool include_stop,
                      const std::vector<StopPiece>& pieces);

// Bytes at the end of `text` that have to be held back.
size_t HeldNaively(const std::vector<std::string>& stops, bool include_stop,
                   std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_NAIVE_STOP_H_
