#include "engine/template/text_functions.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"

namespace kvasir::jinja {
namespace {

// Line ends of str.splitlines().
bool EndsLine(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) ||
         code == 0x85 || code == 0x2028 || code == 0x2029;
}

void AppendChanged(char32_t code, Case how, bool starts_word,
                   std::string& out) {
  switch (how) {
    case Case::kUpper:
      return AppendUpper(code, out);
    case Case::kLower:
      return AppendLower(code, out);
    case Case::kTitle:
    case Case::kCapitalize:
      return starts_word ? AppendTitle(code, out) : AppendLower(code, out);
    case Case::kSwap:
      return IsUpper(code) ? AppendLower(code, out) : AppendUpper(code, out);
  }
}

// Bytes of the blank that starts or ends at `at`; 0 if none does.
size_t BlankAt(const Text& text, size_t at) {
  const Character c = CharacterAt(text.bytes(), at);
  return IsSpace(c.code) ? c.bytes : 0;
}

size_t StartOfLast(std::string_view text, size_t end) {
  do {
    --end;
  } while (!StartsCharacter(text[end]));
  return end;
}

class Cutter {
 public:
  Cutter(Budget& budget, const Text& text) : budget_(budget), text_(text) {}

  absl::Status Add(size_t from, size_t to) {
    RETURN_IF_ERROR(budget_.Produce(sizeof(Text) + (to - from)));
    parts_.push_back(text_.Slice(from, to));
    return absl::OkStatus();
  }
  std::vector<Text> Take(bool reversed) {
    if (reversed) std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  Budget& budget_;
  const Text& text_;
  std::vector<Text> parts_;
};

absl::StatusOr<std::vector<Text>> SplitAtBlanks(Budget& budget,
                                                const Text& text,
                                                int64_t limit) {
  Cutter cutter(budget, text);
  size_t at = 0;
  for (int64_t cuts = 0;; ++cuts) {
    while (at < text.size() && BlankAt(text, at) > 0) at += BlankAt(text, at);
    if (at == text.size()) break;
    if (limit >= 0 && cuts == limit) {
      RETURN_IF_ERROR(cutter.Add(at, text.size()));
      break;
    }
    const size_t from = at;
    while (at < text.size() && BlankAt(text, at) == 0) {
      at += CharacterAt(text.bytes(), at).bytes;
    }
    RETURN_IF_ERROR(cutter.Add(from, at));
  }
  return cutter.Take(false);
}

absl::StatusOr<std::vector<Text>> SplitAtBlanksFromRight(Budget& budget,
                                                         const Text& text,
                                                         int64_t limit) {
  Cutter cutter(budget, text);
  const auto blank_before = [&](size_t end) {
    return BlankAt(text, StartOfLast(text.view(), end)) > 0;
  };
  size_t end = text.size();
  for (int64_t cuts = 0;; ++cuts) {
    while (end > 0 && blank_before(end)) end = StartOfLast(text.view(), end);
    if (end == 0) break;
    size_t from = end;
    if (limit >= 0 && cuts == limit) {
      RETURN_IF_ERROR(cutter.Add(0, end));
      break;
    }
    while (from > 0 && !blank_before(from)) {
      from = StartOfLast(text.view(), from);
    }
    RETURN_IF_ERROR(cutter.Add(from, end));
    end = from;
  }
  return cutter.Take(true);
}

}  // namespace

absl::StatusOr<Text> EscapeMarkup(Budget& budget, const Text& text) {
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"&", "&amp;"},  {"<", "&lt;"},  {">", "&gt;"},
      {"\"", "&#34;"}, {"'", "&#39;"},
  };
  Text out = text;
  for (const auto& [plain, escaped] : kEscapes) {
    const Text to(std::string(escaped), /*trusted=*/false);
    ASSIGN_OR_RETURN(out, Replace(budget, out, plain, to, -1));
  }
  return out;
}

absl::StatusOr<Text> ChangeCase(Budget& budget, const Text& text, Case how) {
  RETURN_IF_ERROR(budget.Produce(text.MemoryBytes()));
  Text out;
  out.set_markup(text.is_markup());
  std::string changed;  // of one run
  bool starts_word = true;
  Origin origin = Origin::kData;
  for (TextCursor at(text); !at.done(); at.Next()) {
    if (at.origin() != origin) {
      out.Append(changed, origin);
      changed.clear();
      origin = at.origin();
    }
    AppendChanged(at.code(), how, starts_word, changed);
    const bool is_cased = IsUpper(at.code()) || IsLower(at.code());
    starts_word = how == Case::kTitle && !is_cased;
  }
  out.Append(changed, origin);
  return out;
}

size_t Find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

absl::StatusOr<size_t> FindLast(Budget& budget, std::string_view text,
                                std::string_view part) {
  if (part.size() > text.size()) return std::string_view::npos;
  const size_t places = text.size() - part.size() + 1;
  RETURN_IF_ERROR(budget.Scan(text.size()));
  // Neither factor is over 2^32, since both are texts in memory.
  RETURN_IF_ERROR(budget.Scan(places * part.size()));
  return text.rfind(part);
}

absl::StatusOr<Text> Strip(Budget& budget, const Text& text, Side side,
                           const std::string_view* set) {
  RETURN_IF_ERROR(budget.Produce(text.MemoryBytes()));
  // Each character at the ends may look through the whole set.
  const size_t looks = set == nullptr ? 0 : set->size() / kBytesPerStep;
  for (size_t i = 0; i < looks; ++i) RETURN_IF_ERROR(budget.Scan(text.size()));
  const auto goes = [&](size_t at) {
    const Character c = CharacterAt(text.bytes(), at);
    if (set == nullptr) return IsSpace(c.code);
    // A character's bytes start no other one, so a find cannot be misled.
    return set->find(text.view().substr(at, c.bytes)) != std::string_view::npos;
  };
  size_t from = 0;
  size_t to = text.size();
  if (side != Side::kRight) {
    while (from < to && goes(from)) {
      from += CharacterAt(text.bytes(), from).bytes;
    }
  }
  if (side != Side::kLeft) {
    while (from < to && goes(StartOfLast(text.view(), to))) {
      to = StartOfLast(text.view(), to);
    }
  }
  return text.Slice(from, to);
}

absl::StatusOr<Text> Replace(Budget& budget, const Text& text,
                             std::string_view from, const Text& to,
                             int64_t count) {
  RETURN_IF_ERROR(budget.Produce(text.MemoryBytes()));
  Text out;
  out.set_markup(text.is_markup());
  size_t at = 0;
  size_t copied = 0;
  for (; count != 0; --count) {
    const size_t found = Find(text.view(), from, at);
    if (found == std::string_view::npos) break;
    RETURN_IF_ERROR(
        budget.Produce(to.size() + to.runs().size() * sizeof(Text::Run)));
    out.Append(text, copied, found);
    out.Append(to);
    copied = found + from.size();
    at = copied;
    if (!from.empty()) continue;
    // Nothing is found before each character and at the end.
    if (at == text.size()) break;
    at += CharacterAt(text.bytes(), at).bytes;
  }
  out.Append(text, copied, text.size());
  return out;
}

absl::StatusOr<std::vector<Text>> Split(Budget& budget, const Text& text,
                                        std::string_view separator,
                                        int64_t limit, bool from_right) {
  RETURN_IF_ERROR(budget.Scan(text.size()));
  if (separator.empty()) {
    return from_right ? SplitAtBlanksFromRight(budget, text, limit)
                      : SplitAtBlanks(budget, text, limit);
  }
  Cutter cutter(budget, text);
  size_t from = 0;
  size_t to = text.size();
  for (int64_t cuts = 0; limit < 0 || cuts < limit; ++cuts) {
    size_t found = Find(text.view(), separator, from);
    if (from_right) {
      ASSIGN_OR_RETURN(found,
                       FindLast(budget, text.view().substr(0, to), separator));
    }
    if (found == std::string_view::npos) break;
    const size_t behind = found + separator.size();
    RETURN_IF_ERROR(from_right ? cutter.Add(behind, to)
                               : cutter.Add(from, found));
    (from_right ? to : from) = from_right ? found : behind;
  }
  RETURN_IF_ERROR(cutter.Add(from, to));
  return cutter.Take(from_right);
}

absl::StatusOr<std::vector<Text>> SplitLines(Budget& budget, const Text& text,
                                             bool keep_ends) {
  RETURN_IF_ERROR(budget.Scan(text.size()));
  Cutter cutter(budget, text);
  size_t from = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = CharacterAt(text.bytes(), at);
    size_t behind = at + c.bytes;
    if (EndsLine(c.code)) {
      if (text.view().substr(at, 2) == "\r\n") ++behind;
      RETURN_IF_ERROR(cutter.Add(from, keep_ends ? behind : at));
      from = behind;
    }
    at = behind;
  }
  if (from < text.size()) RETURN_IF_ERROR(cutter.Add(from, text.size()));
  return cutter.Take(false);
}

std::vector<size_t> CharacterOffsets(const Text& text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.CharacterCount());
  for (size_t at = 0; at < text.size();
       at += CharacterAt(text.bytes(), at).bytes) {
    offsets.push_back(at);
  }
  return offsets;
}

}  // namespace kvasir::jinja
