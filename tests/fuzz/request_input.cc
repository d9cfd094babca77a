#include "tests/fuzz/request_input.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "engine/request_check.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"
#include "server/request_parse.h"
#include "server/tokenize_codec.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

// Requests of all calls, Generate's first.
std::vector<const Descriptor*> RequestTypes() {
  std::vector<const Descriptor*> types = {v1::GenerateRequest::descriptor()};
  for (const auto* file : {v1::GenerateRequest::descriptor()->file(),
                           v1::GetCacheStatsRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* service = file->service(i);
      for (int k = 0; k < service->method_count(); ++k) {
        types.push_back(service->method(k)->input_type());
      }
    }
  }
  return types;
}

struct TinyService {
  std::shared_ptr<const Tokenizer> tokenizer = MakeTinyTokenizer();
  std::shared_ptr<const ServedVersion> version =
      MakeTinyVersion(tokenizer, MakeTinyInfo(*tokenizer));
};

const ServedVersion& Version() {
  static const auto& service = *new TinyService;
  return *service.version;
}

absl::Status Decode(const v1::GenerateRequest& wire) {
  const CallContext context = {
      .request_id = "fuzz", .random_seed = 1, .now = absl::Seconds(100)};
  RETURN_IF_ERROR(ChooseRequestId(wire.request_id(), "", "made").status());
  ASSIGN_OR_RETURN(const GenerateCall call,
                   DecodeGenerate(wire, context, ModelOf(Version())));
  KV_CHECK(call.stream_interval >= 1 &&
           call.stream_interval <= kMaxStreamInterval);
  KV_CHECK(call.request.deadline > context.now);
  KV_CHECK(call.return_text || call.return_token_ids);
  RETURN_IF_ERROR(CheckRequest(call.request, Version().limits()));
  for (const TokenId id : call.request.prompt) {
    KV_CHECK(id >= 0 && id < Version().limits().token_limit) << id;
  }
  return absl::OkStatus();
}

absl::Status Decode(const v1::TokenizeRequest& wire) {
  RETURN_IF_ERROR(CheckInput(wire, ModelOf(Version())));
  return AnswerTokenize(wire, ModelOf(Version())).status();
}

absl::Status Decode(const v1::DetokenizeRequest& wire) {
  RETURN_IF_ERROR(CheckInput(wire, ModelOf(Version())));
  return AnswerDetokenize(wire, ModelOf(Version())).status();
}

absl::Status Handle(const Message& request) {
  if (const auto* wire = dynamic_cast<const v1::GenerateRequest*>(&request)) {
    return Decode(*wire);
  }
  if (const auto* wire = dynamic_cast<const v1::TokenizeRequest*>(&request)) {
    return Decode(*wire);
  }
  if (const auto* wire = dynamic_cast<const v1::DetokenizeRequest*>(&request)) {
    return Decode(*wire);
  }
  return absl::OkStatus();
}

// What a status may be that a client is told of its request.
void CheckAnswer(const absl::Status& status) {
  constexpr absl::StatusCode kCodes[] = {
      absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument,
      absl::StatusCode::kUnimplemented, absl::StatusCode::kResourceExhausted};
  KV_CHECK(absl::c_linear_search(kCodes, status.code())) << status.ToString();
  const std::string message(status.message());
  KV_CHECK(status.ok() || !message.empty());
  KV_CHECK(WellFormedBytes(message) == message.size()) << message;
  KV_CHECK(absl::c_none_of(message, absl::ascii_iscntrl)) << message;
}

}  // namespace

absl::Status RunRequestInput(absl::Span<const uint8_t> bytes) {
  static const auto& types =
      *new std::vector<const Descriptor*>(RequestTypes());
  if (bytes.empty()) return absl::OkStatus();
  const Descriptor* type = types[bytes[0] % types.size()];
  // Two slices, as a message comes that is read in two parts.
  bytes.remove_prefix(1);
  const size_t half = bytes.size() / 2;
  const grpc::Slice slices[] = {
      grpc::Slice(bytes.data(), half),
      grpc::Slice(bytes.data() + half, bytes.size() - half)};
  const grpc::ByteBuffer wire(slices, 2);
  const std::unique_ptr<Message> request(
      MessageFactory::generated_factory()->GetPrototype(type)->New());
  absl::Status status = ParseInto(wire, *request);
  if (status.ok()) {
    // What was understood is understood again.
    const std::unique_ptr<Message> again(request->New());
    KV_CHECK(ParseInto(ToBytes(*request), *again).ok());
    status = Handle(*request);
  }
  CheckAnswer(status);
  return status;
}

}  // namespace kvasir
