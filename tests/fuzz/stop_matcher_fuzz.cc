// libFuzzer's entry for stop strings; build it with the preset `fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/stop_matcher_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvasir::RunStopMatcherInput({data, size});
  return 0;
}
