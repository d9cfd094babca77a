#ifndef KVASIR_TESTS_FUZZ_STOP_MATCHER_INPUT_H_
#define KVASIR_TESTS_FUZZ_STOP_MATCHER_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace kvasir {

// Takes foreign bytes for stop strings and for a text in pieces, any bytes:
// a first byte of flags, then stops and pieces that end at byte 0xFF. A stop
// that a client could not send is left out. Aborts if the matcher differs from
// the naive twin, sends a cut character or holds back what it need not. Returns
// how many bytes were sent.
size_t RunStopMatcherInput(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_STOP_MATCHER_INPUT_H_
