#ifndef KVASIR_TESTS_SUPPORT_GGUF_WRITER_H_
#define KVASIR_TESTS_SUPPORT_GGUF_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "engine/backend/tensor.h"

namespace kvasir {

// GGUF's numbers for the types of metadata values.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// GGUF's number for a tensor type.
uint32_t GgufTensorTypeId(DType type);

// `value` as GGUF stores it: little-endian bytes; a string with its length in
// front.
std::string GgufBytes(uint64_t value, int bytes);
std::string GgufBytes(float value);
std::string GgufBytes(std::string_view text);

// Writes GGUF files for tests, well-formed by default. Everything that a file
// claims about itself can be overridden, so that each test breaks one thing.
struct GgufWriter {
  struct Entry {
    std::string key;
    uint32_t type = 0;
    std::string payload;  // the value's bytes, as they go into the file
    std::optional<uint64_t> claimed_key_length;
  };
  struct Tensor {
    std::string name;
    uint32_t type = 0;
    std::vector<uint64_t> dims;
    std::string data;
    std::optional<uint32_t> claimed_dim_count;
    std::optional<uint64_t> claimed_offset;  // from the start of the data
    std::optional<uint64_t> claimed_name_length;
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint32_t alignment = 32;  // of the data; written as metadata only by SetInt()
  std::optional<uint64_t> claimed_tensor_count;
  std::optional<uint64_t> claimed_entry_count;
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  // Adds a metadata value or replaces the one of that key.
  void SetRaw(std::string_view key, GgufType type, std::string payload);
  void SetInt(std::string_view key, uint32_t value);
  void SetFloat(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, absl::Span<const std::string> values);
  void SetInts(std::string_view key, absl::Span<const int32_t> values);
  void Remove(std::string_view key);

  // A tensor of `values` in `type`; dims fastest-varying first.
  void AddTensor(std::string_view name, DType type,
                 absl::Span<const int64_t> dims,
                 absl::Span<const float> values);
  // The tensor of that name, for breaking it; a test bug if there is none.
  Tensor& FindTensor(std::string_view name);
  void RemoveTensor(std::string_view name);

  std::string Build() const;
  absl::Status Write(const std::string& path) const;
};

// Writes `bytes` to a new file at `path`.
absl::Status WriteFileBytes(const std::string& path, std::string_view bytes);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_GGUF_WRITER_H_
