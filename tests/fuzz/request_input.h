#ifndef KVASIR_TESTS_FUZZ_REQUEST_INPUT_H_
#define KVASIR_TESTS_FUZZ_REQUEST_INPUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace kvasir {

// Takes foreign bytes for a request, as they come off the wire: the first byte
// chooses among the requests of all calls, the rest is the message. A Generate
// request is decoded and checked against a tiny model, as far as the engine's
// inbox. Aborts if a promise is broken: a code or a message that no client
// should see, a decoded request outside of its limits. Returns what the client
// would be told.
absl::Status RunRequestInput(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_FUZZ_REQUEST_INPUT_H_
