// libFuzzer's entry for requests; build it with the preset `fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/request_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)kvasir::RunRequestInput({data, size});
  return 0;
}
