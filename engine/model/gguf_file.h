#ifndef KVASIR_ENGINE_MODEL_GGUF_FILE_H_
#define KVASIR_ENGINE_MODEL_GGUF_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/backend/tensor.h"

namespace kvasir {

// One metadata value of a GGUF file. Integers of every width become int64_t or,
// when they do not fit, uint64_t; arrays hold elements of one kind.
using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string,
                               std::vector<bool>, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> dims;  // fastest-varying first, as in the file
  const uint8_t* data = nullptr;
  int64_t bytes = 0;

  // As a matrix: dims[0] columns, the product of the others rows.
  HostMatrix AsMatrix() const;
};

// A GGUF v3 model file, mapped read-only and checked in full before anything of
// it is used: header, every length, type and offset, tensor bounds, overlap and
// file size. Format: the GGUF specification in ggml's docs/gguf.md.
//
// Immutable; any thread. Pointers into the file stay valid while it lives.
class GgufFile {
 public:
  // NOT_FOUND if there is no such file; INVALID_ARGUMENT naming the field, what
  // was wanted and what there was; UNIMPLEMENTED for a tensor type without
  // kernels or another GGUF version.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(
      const std::string& path);

  // The same over bytes somebody else keeps alive; for tests and fuzzing.
  static absl::StatusOr<std::unique_ptr<GgufFile>> Parse(
      absl::Span<const uint8_t> bytes, std::string name);

  ~GgufFile();

  const std::string& path() const;
  int64_t file_bytes() const;
  int64_t alignment() const;

  const absl::flat_hash_map<std::string, GgufValue>& metadata() const;
  absl::Span<const GgufTensor> tensors() const;
  const GgufTensor* FindTensor(std::string_view name) const;  // or nullptr

  // Typed access. NOT_FOUND if the key is missing, INVALID_ARGUMENT if it has
  // another type or an integer is out of range.
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string> GetString(std::string_view key) const;
  absl::StatusOr<absl::Span<const std::string>> GetStrings(
      std::string_view key) const;
  absl::StatusOr<absl::Span<const int64_t>> GetInts(std::string_view key) const;
  bool Has(std::string_view key) const;

  // SHA-256 over the whole file, lower-case hex: the digest of the weights in a
  // cache version's fingerprint. Computed once, at the first call, by reading
  // the file through.
  const std::string& Digest() const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_GGUF_FILE_H_
