#include "tests/support/naive_stop.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/model/utf8.h"

namespace kvasir {

NaiveStop StopNaively(const std::vector<std::string>& stops, bool include_stop,
                      const std::vector<StopPiece>& pieces) {
  NaiveStop result;
  for (const StopPiece& piece : pieces) {
    for (const char byte : piece.text) {
      result.text.push_back(byte);
      if (!piece.may_stop) continue;
      for (size_t i = 0; i < stops.size(); ++i) {
        const bool longer = !result.matched.has_value() ||
                            stops[i].size() > stops[*result.matched].size();
        if (longer && result.text.ends_with(stops[i])) result.matched = i;
      }
      if (!result.matched.has_value()) continue;
      if (!include_stop) {
        result.text.resize(result.text.size() - stops[*result.matched].size());
      }
      return result;
    }
  }
  return result;
}

size_t HeldNaively(const std::vector<std::string>& stops, bool include_stop,
                   std::string_view text) {
  size_t held = 0;
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    const std::string_view end = text.substr(text.size() - bytes);
    if (ReadUtf8(end).kind == Utf8Start::Kind::kUnfinished) {
      held = std::max(held, bytes);
    }
    for (const std::string& stop : stops) {
      if (!include_stop && bytes < stop.size() && stop.starts_with(end)) {
        held = std::max(held, bytes);
      }
    }
  }
  return held;
}

}  // namespace kvasir
