#ifndef KVASIR_TESTS_FUZZ_TOKENIZER_INPUT_H_
#define KVASIR_TESTS_FUZZ_TOKENIZER_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace kvasir {

// Takes foreign bytes for a user's text, a template's text and a chat template.
// Aborts if a promise is broken: ids that do not decode to the same bytes, a
// control token out of a user's text, a stream that is not the whole text.
// Returns how many different ids came out.
size_t RunTokenizerInput(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_TOKENIZER_INPUT_H_
