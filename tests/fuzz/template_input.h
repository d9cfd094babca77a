#ifndef KVASIR_TESTS_FUZZ_TEMPLATE_INPUT_H_
#define KVASIR_TESTS_FUZZ_TEMPLATE_INPUT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace kvasir {

// Parses foreign bytes as a chat template and renders it over a conversation.
// What follows the first zero byte is a JSON text for the variable `x`. Aborts
// if a promise is broken: a message's text that is trusted, an error without
// its place, runs that do not differ in trust. True if a text came out.
bool RunTemplateInput(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_TEMPLATE_INPUT_H_
