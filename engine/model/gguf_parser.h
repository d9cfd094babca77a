#ifndef KVASIR_ENGINE_MODEL_GGUF_PARSER_H_
#define KVASIR_ENGINE_MODEL_GGUF_PARSER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/model/gguf_file.h"

namespace kvasir {

// Reads little-endian values from foreign bytes and never past their end. Each
// read that would do so is INVALID_ARGUMENT naming the field, the bytes wanted
// and the bytes left. A view of the bytes.
class ByteReader {
 public:
  explicit ByteReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  int64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // An unsigned integer of 1, 2, 4 or 8 bytes.
  absl::StatusOr<uint64_t> Unsigned(int bytes, const std::string& field);
  // A length of 8 bytes and as many bytes of text, at most `limit`.
  absl::StatusOr<std::string> Text(uint64_t limit, const std::string& field);

 private:
  absl::Span<const uint8_t> bytes_;
  int64_t position_ = 0;
};

// What stands in a GGUF file, checked against its size and against itself.
struct GgufContents {
  int64_t alignment = 0;
  absl::flat_hash_map<std::string, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // `data` points into the parsed bytes
};

// Errors as GgufFile::Open() describes them, without the file's name. Memory is
// never taken on the word of a length: what it announces must be in `bytes`.
absl::StatusOr<GgufContents> ParseGguf(absl::Span<const uint8_t> bytes);

// One metadata value of GGUF type `type`; `field` names it in errors.
absl::StatusOr<GgufValue> ParseGgufValue(ByteReader& reader, uint64_t type,
                                         const std::string& field);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_GGUF_PARSER_H_
