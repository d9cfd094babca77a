#ifndef KVASIR_ENGINE_MODEL_GGUF_FILE_H_
#define KVASIR_ENGINE_MODEL_GGUF_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
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
  int64_t offset = 0;         // of the data, from the start of the file
  int64_t bytes = 0;

  // `data`, which is the tensor's, as a matrix: dims[0] columns, the product of
  // the others rows.
  HostMatrix AsMatrix(const uint8_t* data) const;
};

// A GGUF v3 model file. The header is read and checked in full before anything
// of it is used: every length, type and offset, tensor bounds, overlap and file
// size. Tensors are read on demand and never mapped, so that a file that is cut
// or rewritten meanwhile costs the load and not the process. Format: the GGUF
// specification in ggml's docs/gguf.md.
//
// Immutable; any thread. Keeps the file open while it lives.
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

  // A small tensor's bytes, out of turn. INVALID_ARGUMENT if they are gone.
  absl::StatusOr<std::vector<uint8_t>> ReadTensor(
      const GgufTensor& tensor) const;

  // Takes a tensor and its bytes, which are gone when it returns. What it
  // returns but OK ends the reading.
  using TensorVisitor =
      absl::FunctionRef<absl::Status(const GgufTensor&, const uint8_t*)>;

  // Reads everything behind the header once, from the start of the file to its
  // end, shows every tensor to `visit` and returns the SHA-256 of the whole
  // file, lower-case hex: of the header that was parsed and the very bytes that
  // were shown. No more than the largest tensor is in memory.
  //
  // INVALID_ARGUMENT if the file was cut or changed since it was opened; what
  // was shown is then worth nothing. RESOURCE_EXHAUSTED for memory.
  absl::StatusOr<std::string> ReadThrough(TensorVisitor visit) const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_GGUF_FILE_H_
