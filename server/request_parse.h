#ifndef KVASIR_SERVER_REQUEST_PARSE_H_
#define KVASIR_SERVER_REQUEST_PARSE_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace kvasir {

// Bytes of a call to messages and back. The services take bytes and parse them
// here, because gRPC answers what it cannot parse itself with UNIMPLEMENTED and
// no word.

// Fills in `request`. Errors as of ScanRequest().
absl::Status ParseInto(const grpc::ByteBuffer& wire,
                       google::protobuf::Message& request);

// Cannot fail for a message of ours, which is far below 2 GiB.
grpc::ByteBuffer ToBytes(const google::protobuf::Message& message);

}  // namespace kvasir

#endif  // KVASIR_SERVER_REQUEST_PARSE_H_
