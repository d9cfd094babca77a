// libFuzzer's entry for text; build it with the preset `fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/tokenizer_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvasir::RunTokenizerInput({data, size});
  return 0;
}
