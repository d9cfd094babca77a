#ifndef KVASIR_ENGINE_MODEL_BYTE_SOURCE_H_
#define KVASIR_ENGINE_MODEL_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace kvasir {

// Bytes that are read by their place: those of a file or of memory. A file is
// read by calls and never mapped, since somebody may cut it meanwhile, and a
// mapping would then end the process instead of the load.
//
// Any thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // As it was when the source was made.
  virtual int64_t size() const = 0;

  // Fills `out` with the bytes from `offset` on. INVALID_ARGUMENT if they
  // cannot be read or are no longer there.
  virtual absl::Status ReadAt(int64_t offset,
                              absl::Span<uint8_t> out) const = 0;

  // INVALID_ARGUMENT if size or time of modification are others than when the
  // source was made: what was read since may be of two files.
  virtual absl::Status CheckUnchanged() const = 0;
};

// NOT_FOUND if there is no such file, INVALID_ARGUMENT if it is none to read or
// empty. Errors of this room's sources do not repeat the file's name.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(
    const std::string& path);

// The caller keeps `bytes` alive and as they are.
std::unique_ptr<ByteSource> MakeMemorySource(absl::Span<const uint8_t> bytes);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_BYTE_SOURCE_H_
