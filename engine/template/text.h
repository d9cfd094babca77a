#ifndef KVASIR_ENGINE_TEMPLATE_TEXT_H_
#define KVASIR_ENGINE_TEMPLATE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace kvasir::jinja {

// Where a byte of a text comes from.
enum class Origin : uint8_t {
  kData,
  kTemplate,  // the template's own literals, and what the host calls trusted
  kMarked,    // data that the host wants to find again
};

// A string that knows where each of its bytes comes from.
//
// Those of kTemplate are trusted; everything else is not, and stays so however
// it is cut and joined. Only trusted bytes may become control tokens of a
// model.
//
// Well-formed UTF-8; positions are in bytes and lie between characters, lengths
// in characters where the name says so. A value; one thread at a time.
class Text {
 public:
  // Bytes from the end of the run before up to `end`.
  struct Run {
    size_t end;
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin);
  Text(std::string bytes, bool trusted)
      : Text(std::move(bytes), OriginOf(trusted)) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Rising ends, the last one size(); neighbours differ in origin.
  absl::Span<const Run> runs() const { return runs_; }

  // What Python calls Markup: what the filters `safe` and `escape` give. A text
  // that is added to it is escaped. Parts of it are markup as well; what is
  // appended to this object does not alter it.
  bool is_markup() const { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }

  // What this object costs to keep.
  size_t MemoryBytes() const {
    return sizeof(Text) + bytes_.size() + runs_.size() * sizeof(Run);
  }

  // Whether every character is one byte.
  bool is_ascii() const { return characters_ == size(); }
  size_t CharacterCount() const { return characters_; }
  // Where the nth character starts; size() for the one behind the last.
  size_t OffsetOf(size_t character) const;

  bool IsTrustedAt(size_t offset) const;

  void Append(std::string_view bytes, Origin origin);
  void Append(std::string_view bytes, bool trusted) {
    Append(bytes, OriginOf(trusted));
  }
  void Append(const Text& other) { Append(other, 0, other.size()); }
  void Append(const Text& other, size_t from, size_t to);

  Text Slice(size_t from, size_t to) const;

 private:
  static Origin OriginOf(bool trusted) {
    return trusted ? Origin::kTemplate : Origin::kData;
  }
  void AddRun(size_t bytes, Origin origin);

  std::string bytes_;
  absl::InlinedVector<Run, 1> runs_;
  size_t characters_ = 0;
  bool markup_ = false;
};

// Goes through a text character by character and tells what each one's origin
// is, in time that does not depend on the number of runs.
class TextCursor {
 public:
  explicit TextCursor(const Text& text) : text_(text) {}

  bool done() const { return offset_ == text_.size(); }
  size_t offset() const { return offset_; }
  char32_t code() const;  // not when done
  std::string_view bytes() const;
  Origin origin() const { return text_.runs()[run_].origin; }
  void Next();

 private:
  const Text& text_;
  size_t offset_ = 0;
  size_t run_ = 0;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_TEXT_H_
