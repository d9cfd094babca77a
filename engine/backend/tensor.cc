#include "engine/backend/tensor.h"

#include <cstdint>
#include <string_view>

#include "cache/base/check.h"

namespace kvasir {
namespace {

struct DTypeFacts {
  std::string_view name;
  int16_t block_elements;
  int16_t block_bytes;
};

// Block bytes of the quantized types: a f16 scale (two for those with a
// minimum), packed scales of the K types, and the numbers' bits.
constexpr DTypeFacts Facts(DType type) {
  switch (type) {
    case DType::kF32:
      return {"F32", 1, 4};
    case DType::kF16:
      return {"F16", 1, 2};
    case DType::kBF16:
      return {"BF16", 1, 2};
    case DType::kQ8_0:
      return {"Q8_0", 32, 2 + 32};
    case DType::kQ4_0:
      return {"Q4_0", 32, 2 + 16};
    case DType::kQ4_1:
      return {"Q4_1", 32, 4 + 16};
    case DType::kQ5_0:
      return {"Q5_0", 32, 2 + 4 + 16};
    case DType::kQ5_1:
      return {"Q5_1", 32, 4 + 4 + 16};
    case DType::kQ4_K:
      return {"Q4_K", 256, 4 + 12 + 128};
    case DType::kQ5_K:
      return {"Q5_K", 256, 4 + 12 + 32 + 128};
    case DType::kQ6_K:
      return {"Q6_K", 256, 2 + 16 + 64 + 128};
  }
  return {"", 0, 0};
}

DTypeFacts CheckedFacts(DType type) {
  const DTypeFacts facts = Facts(type);
  KV_CHECK(facts.block_elements > 0)
      << "wanted a DType, found " << static_cast<int>(type);
  return facts;
}

}  // namespace

int64_t DTypeBlockElements(DType type) {
  return CheckedFacts(type).block_elements;
}

int64_t DTypeBlockBytes(DType type) { return CheckedFacts(type).block_bytes; }

std::string_view DTypeName(DType type) { return CheckedFacts(type).name; }

}  // namespace kvasir
