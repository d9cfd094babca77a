#ifndef KVASIR_ENGINE_TEMPLATE_STRING_FORMAT_H_
#define KVASIR_ENGINE_TEMPLATE_STRING_FORMAT_H_

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/text.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// `format % values` of Python: a tuple's items in turn, a dict's by name, any
// other value as the only one. Conversions d i u x X o e E f F g G c s r a and
// %, with flags, width and precision. What comes of a text keeps its trust, and
// so does the format.
absl::StatusOr<Value> PercentFormat(Runtime& runtime, const Text& format,
                                    const Value& values);

// `format.format(...)`: {}, {0}, {name}, {name.attribute[key]}, !s, !r, and
// after a colon [[fill]align][sign][#][0][width][,][.precision][type].
absl::StatusOr<Value> BraceFormat(Runtime& runtime, const Text& format,
                                  const Arguments& arguments);

// How a value is laid out; absent numbers are -1.
struct Layout {
  char conversion = 's';
  bool left = false;           // else to the right
  bool centre = false;         // an odd blank goes to the right
  bool centre_method = false;  // with centre: as str.center() does it
  bool zeros = false;          // between sign and digits
  bool alternate = false;      // 0x, 0o
  bool commas = false;         // between thousands
  char sign = '-';             // or '+', ' '
  std::string fill = " ";
  int64_t width = -1;
  int64_t precision = -1;
};

// Widths and precisions beyond this are RESOURCE_EXHAUSTED.
inline constexpr int64_t kMaxLayoutWidth = 1 << 20;
inline constexpr int64_t kMaxLayoutPrecision = 400;
absl::Status CheckLayout(Runtime& runtime, const Layout& layout);

// A number, of conversion d x X o e E f F g G or %.
absl::StatusOr<std::string> FormatNumber(const Layout& layout,
                                         const Value& value);

// Fills `text` up to the width.
absl::StatusOr<Text> Pad(Runtime& runtime, const Layout& layout, Text text);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_STRING_FORMAT_H_
