#ifndef KVASIR_TESTS_FUZZ_GGUF_INPUT_H_
#define KVASIR_TESTS_FUZZ_GGUF_INPUT_H_

#include <cstdint>

#include "absl/types/span.h"

namespace kvasir {

// Does with foreign bytes what the daemon does with a model file: parse, read
// configuration and vocabulary, load the weights, compute one token. Aborts if
// a promise is broken: a tensor outside the bytes, an error of several lines.
// What the sanitizers find, they report themselves. True if a token came out.
//
// The same function runs under libFuzzer and, over the kept inputs, in every
// build's tests.
bool RunGgufInput(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_GGUF_INPUT_H_
