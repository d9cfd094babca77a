#ifndef KVASIR_SERVER_REQUEST_SCAN_H_
#define KVASIR_SERVER_REQUEST_SCAN_H_

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace kvasir {

// Most messages and strings in one request, at all depths together; the longest
// conversation has 12,288. Each costs memory of its own, well beyond the two
// bytes that it may take on the wire.
inline constexpr int kMaxRequestParts = 32768;

// Reads the bytes of a request of `type` without keeping any of them, and says
// why they are refused, which protobuf's parser does not. INVALID_ARGUMENT with
// the field's path
//   - for a field number that the message does not have, at any depth; a
//     newer client's, or a known one with another wire type, which protobuf
//     treats alike;
//   - for a string that is not UTF-8;
//   - for more than kMaxRequestParts parts, or messages too deep in each other.
// Bytes that are no message at all are INVALID_ARGUMENT, too. What passes may
// still fail to parse where the fault is inside a packed list.
absl::Status ScanRequest(const google::protobuf::Descriptor& type,
                         google::protobuf::io::ZeroCopyInputStream& bytes);

// What bytes that are no message of `type` are refused with.
absl::Status NotAMessage(const google::protobuf::Descriptor& type);

}  // namespace kvasir

#endif  // KVASIR_SERVER_REQUEST_SCAN_H_
