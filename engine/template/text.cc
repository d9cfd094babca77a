#include "engine/template/text.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"
#include "engine/template/characters.h"

namespace kvasir::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (bytes_.empty()) return;
  runs_.push_back({bytes_.size(), origin});
  characters_ = static_cast<size_t>(
      std::count_if(bytes_.begin(), bytes_.end(), StartsCharacter));
}

void Text::AddRun(size_t bytes, Origin origin) {
  if (bytes == 0) return;
  const size_t end = (runs_.empty() ? 0 : runs_.back().end) + bytes;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, origin});
  }
}

size_t Text::OffsetOf(size_t character) const {
  if (character >= characters_) return size();
  if (is_ascii()) return character;
  size_t offset = 0;
  for (size_t i = 0; i < character; ++i) {
    offset += CharacterAt(bytes_, offset).bytes;
  }
  return offset;
}

bool Text::IsTrustedAt(size_t offset) const {
  const auto run =
      std::upper_bound(runs_.begin(), runs_.end(), offset,
                       [](size_t at, const Run& one) { return at < one.end; });
  return run != runs_.end() && run->origin == Origin::kTemplate;
}

void Text::Append(std::string_view bytes, Origin origin) {
  bytes_.append(bytes);
  AddRun(bytes.size(), origin);
  characters_ += static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(), StartsCharacter));
}

void Text::Append(const Text& other, size_t from, size_t to) {
  KV_CHECK(from <= to && to <= other.size() && &other != this)
      << from << " to " << to << " of " << other.size();
  auto run =
      std::upper_bound(other.runs_.begin(), other.runs_.end(), from,
                       [](size_t at, const Run& one) { return at < one.end; });
  for (; from < to; ++run) {
    const size_t end = std::min(run->end, to);
    Append(other.view().substr(from, end - from), run->origin);
    from = end;
  }
}

Text Text::Slice(size_t from, size_t to) const {
  Text out;
  out.Append(*this, from, to);
  out.markup_ = markup_;
  return out;
}

char32_t TextCursor::code() const {
  return CharacterAt(text_.bytes(), offset_).code;
}

std::string_view TextCursor::bytes() const {
  return text_.view().substr(offset_,
                             CharacterAt(text_.bytes(), offset_).bytes);
}

void TextCursor::Next() {
  offset_ += CharacterAt(text_.bytes(), offset_).bytes;
  while (run_ + 1 < text_.runs().size() && offset_ >= text_.runs()[run_].end) {
    ++run_;
  }
}

}  // namespace kvasir::jinja
