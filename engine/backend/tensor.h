#ifndef KVASIR_ENGINE_BACKEND_TENSOR_H_
#define KVASIR_ENGINE_BACKEND_TENSOR_H_

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

namespace kvasir {

// Element or block type of a tensor. The quantized ones are GGUF's and keep its
// numbering and block layout (ggml's documentation of GGUF; block sizes in
// QuantBlock* below).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

// Numbers in one block of `type`, and its bytes: 1 and the element size for the
// plain types.
int64_t DTypeBlockElements(DType type);
int64_t DTypeBlockBytes(DType type);
std::string_view DTypeName(DType type);  // "Q4_1"

// A row-major matrix somebody else owns, as it lies in a model file: `rows`
// outputs of `columns` inputs. `columns` is a multiple of the type's block.
// A vector has one row.
struct HostMatrix {
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  const uint8_t* data = nullptr;

  int64_t RowBytes() const {
    return columns / DTypeBlockElements(type) * DTypeBlockBytes(type);
  }
};

// A row-major f32 matrix of activations on the backend's device; a view, like a
// span. Rows are tokens. `stride` counts elements from row to row.
struct Activations {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;

  float* Row(int64_t row) const { return data + row * stride; }
  Activations Rows(int64_t first, int64_t count) const {
    return {Row(first), count, columns, stride};
  }
  Activations Columns(int64_t first, int64_t count) const {
    return {data + first, rows, count, stride};
  }
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_TENSOR_H_
