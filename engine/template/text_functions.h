#ifndef KVASIR_ENGINE_TEMPLATE_TEXT_FUNCTIONS_H_
#define KVASIR_ENGINE_TEMPLATE_TEXT_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/template/budget.h"
#include "engine/template/text.h"

namespace kvasir::jinja {

// What methods and filters share: Python's functions of strings, on texts that
// keep the trust of each character. Those that take the budget charge what they
// do before they do it, and fail only by it.

enum class Case : uint8_t { kUpper, kLower, kTitle, kCapitalize, kSwap };
// kTitle as str.title(): each letter after something that is no letter.
absl::StatusOr<Text> ChangeCase(Budget& budget, const Text& text, Case how);

// For HTML.
absl::StatusOr<Text> EscapeMarkup(Budget& budget, const Text& text);

enum class Side : uint8_t { kLeft, kRight, kBoth };
// Without the characters of `set` at its ends; nullptr stands for blanks.
absl::StatusOr<Text> Strip(Budget& budget, const Text& text, Side side,
                           const std::string_view* set = nullptr);

// The first `part` of `text` at or after `from`; npos if there is none. Takes
// linear time whatever both are.
size_t Find(std::string_view text, std::string_view part, size_t from = 0);
// The last one. The time is charged, since it is not linear.
absl::StatusOr<size_t> FindLast(Budget& budget, std::string_view text,
                                std::string_view part);

// At most `count` of them, from the left; all if it is negative.
absl::StatusOr<Text> Replace(Budget& budget, const Text& text,
                             std::string_view from, const Text& to,
                             int64_t count);

// str.split() and rsplit(): with an empty separator at runs of blanks, which
// give no empty parts. At most `limit` cuts if it is not negative.
absl::StatusOr<std::vector<Text>> Split(Budget& budget, const Text& text,
                                        std::string_view separator,
                                        int64_t limit, bool from_right);

absl::StatusOr<std::vector<Text>> SplitLines(Budget& budget, const Text& text,
                                             bool keep_ends);

// Cuts of a text in turn, each of which starts a character.
std::vector<size_t> CharacterOffsets(const Text& text);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_TEXT_FUNCTIONS_H_
