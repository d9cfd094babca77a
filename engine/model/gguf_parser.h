#ifndef KVASIR_ENGINE_MODEL_GGUF_PARSER_H_
#define KVASIR_ENGINE_MODEL_GGUF_PARSER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/model/byte_source.h"
#include "engine/model/gguf_file.h"
#include "engine/model/sha256.h"

namespace kvasir {

// Reads little-endian values from a source's start on and never past its end.
// Each read that would do so is INVALID_ARGUMENT naming the field, the bytes
// wanted and the bytes left. Holds a window of the source, however long what it
// reads; the source outlives it.
class ByteReader {
 public:
  explicit ByteReader(const ByteSource* source) : source_(*source) {}

  int64_t position() const { return position_; }
  uint64_t remaining() const {
    return static_cast<uint64_t>(source_.size() - position_);
  }

  // An unsigned integer of 1, 2, 4 or 8 bytes.
  absl::StatusOr<uint64_t> Unsigned(int bytes, const std::string& field);
  // A length of 8 bytes and as many bytes of text, at most `limit`.
  absl::StatusOr<std::string> Text(uint64_t limit, const std::string& field);

  // Over the bytes before position(), as they were handed out.
  Sha256 Hash() const;

 private:
  // `out` is no larger than what remains.
  absl::Status Take(absl::Span<uint8_t> out);

  const ByteSource& source_;
  int64_t position_ = 0;
  std::vector<uint8_t> window_;  // the source's bytes around position_
  size_t taken_ = 0;             // of the window
  Sha256 hash_;                  // of what stands before the window
};

// What stands in a GGUF file, checked against its size and against itself.
struct GgufContents {
  int64_t alignment = 0;
  absl::flat_hash_map<std::string, GgufValue> metadata;
  std::vector<GgufTensor> tensors;
  int64_t header_bytes = 0;  // in front of the data and its padding
  Sha256 header_hash;        // over the header as it was parsed
};

// Errors as GgufFile::Open() describes them, without the file's name. Reads the
// header only. Memory is never taken on the word of a length: what it announces
// must be in `source`.
absl::StatusOr<GgufContents> ParseGguf(const ByteSource& source);

// One metadata value of GGUF type `type`; `field` names it in errors.
absl::StatusOr<GgufValue> ParseGgufValue(ByteReader& reader, uint64_t type,
                                         const std::string& field);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_GGUF_PARSER_H_
