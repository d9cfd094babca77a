#ifndef KVASIR_TESTS_SUPPORT_QUANTIZE_H_
#define KVASIR_TESTS_SUPPORT_QUANTIZE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

#include "engine/backend/tensor.h"

namespace kvasir {

// `values` encoded in `type` as a GGUF file stores them. Plain round-to-nearest
// quantizers without any search for better scales: tests need valid blocks, not
// the best ones. The number of values must be a multiple of the type's block.
std::string Quantize(DType type, absl::Span<const float> values);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_QUANTIZE_H_
