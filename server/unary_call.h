#ifndef KVASIR_SERVER_UNARY_CALL_H_
#define KVASIR_SERVER_UNARY_CALL_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

#include "server/call_stats.h"
#include "server/status_mapping.h"
#include "server/text.h"

namespace kvasir {

// One call that is answered at once or, from another thread, later. Copyable;
// exactly one Finish() for all copies. `stats` outlives the call.
template <typename Response>
class UnaryCall {
 public:
  UnaryCall(grpc::CallbackServerContext* context, Response* response,
            CallStats* stats, std::string_view method)
      : context_(context),
        reactor_(context->DefaultReactor()),
        response_(response),
        meter_(stats, method) {}

  grpc::ServerUnaryReactor* Finish(absl::StatusOr<Response> answer) {
    const absl::Status status = answer.status();
    if (status.ok()) *response_ = *std::move(answer);
    if (const auto delay = RetryDelay(status); delay.has_value()) {
      context_->AddTrailingMetadata(
          "grpc-retry-pushback-ms",
          absl::StrCat(absl::ToInt64Milliseconds(*delay)));
    }
    meter_.End(static_cast<grpc::StatusCode>(status.code()));
    reactor_->Finish(ToGrpcStatus(status));
    return reactor_;
  }

  grpc::ServerUnaryReactor* reactor() const { return reactor_; }

 private:
  grpc::CallbackServerContext* context_;
  grpc::ServerUnaryReactor* reactor_;
  Response* response_;
  CallMeter meter_;
};

// What a method that is not built answers.
inline absl::Status NotBuilt(std::string_view method) {
  return absl::UnimplementedError(
      absl::StrCat(View(method), " is not built in this version"));
}

// A stream that ends before it begins. Destroys itself.
template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  RefusedStream(CallStats* stats, std::string_view method) {
    CallMeter meter(stats, method);
    const absl::Status status = NotBuilt(method);
    meter.End(static_cast<grpc::StatusCode>(status.code()));
    this->Finish(ToGrpcStatus(status));
  }
  void OnDone() override { delete this; }
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_UNARY_CALL_H_
