// libFuzzer's entry for model files; build it with the preset `fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/gguf_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvasir::RunGgufInput({data, size});
  return 0;
}
