#include "server/request_parse.h"

#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/proto_buffer_writer.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "server/request_scan.h"

namespace kvasir {

absl::Status ParseInto(const grpc::ByteBuffer& wire,
                       google::protobuf::Message& request) {
  const google::protobuf::Descriptor& type = *request.GetDescriptor();
  // gRPC hands over a call that was cancelled before its message came, too.
  if (!wire.Valid()) {
    return absl::CancelledError("the call ended before its message came");
  }
  grpc::ByteBuffer bytes(wire);  // shares them
  {
    grpc::ProtoBufferReader reader(&bytes);
    if (!reader.status().ok()) return NotAMessage(type);
    RETURN_IF_ERROR(ScanRequest(type, reader));
  }
  grpc::ProtoBufferReader reader(&bytes);
  return request.ParseFromZeroCopyStream(&reader) ? absl::OkStatus()
                                                  : NotAMessage(type);
}

grpc::ByteBuffer ToBytes(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  const size_t size = message.ByteSizeLong();
  if (size == 0) {
    const grpc::Slice nothing;
    return grpc::ByteBuffer(&nothing, 1);
  }
  grpc::ProtoBufferWriter writer(
      &bytes, grpc::kProtoBufferWriterMaxBufferLength, static_cast<int>(size));
  KV_CHECK(message.SerializeToZeroCopyStream(&writer));
  return bytes;
}

}  // namespace kvasir
