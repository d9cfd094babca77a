#ifndef KVASIR_TESTS_SUPPORT_MALFORMED_GGUF_H_
#define KVASIR_TESTS_SUPPORT_MALFORMED_GGUF_H_

#include <functional>
#include <ostream>

#include "absl/types/span.h"

#include "tests/support/gguf_writer.h"

namespace kvasir {

// A valid GGUF file of two metadata entries (general.architecture,
// llama.block_count) and two tensors (a.weight, b.weight): nothing but what the
// cases below break.
GgufWriter MakeSmallGguf();

// One way in which a file lies about itself (field case LOAD-1).
struct MalformedGguf {
  const char* name;
  std::function<void(GgufWriter&)> break_it;  // of MakeSmallGguf()
  const char* field;                          // what the refusal must name
};
void PrintTo(const MalformedGguf& malformed, std::ostream* out);
absl::Span<const MalformedGguf> MalformedGgufCases();

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_MALFORMED_GGUF_H_
