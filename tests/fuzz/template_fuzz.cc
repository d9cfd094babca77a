// libFuzzer's entry for chat templates; build it with the preset `fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/template_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvasir::RunTemplateInput({data, size});
  return 0;
}
