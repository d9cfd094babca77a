#ifndef KVASIR_SERVER_UNARY_CALL_H_
#define KVASIR_SERVER_UNARY_CALL_H_

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "cache/base/status_macros.h"
#include "server/admin_log.h"
#include "server/call_metadata.h"
#include "server/call_stats.h"
#include "server/request_parse.h"
#include "server/server_state.h"
#include "server/status_mapping.h"
#include "server/text.h"
#include "server/work_pool.h"

namespace kvasir {

// One call that is answered at once or, from another thread, later. Copyable;
// exactly one Finish() for all copies. `stats` outlives the call.
class UnaryCall {
 public:
  // `response` is where the answer's bytes go; it lives as long as the call.
  UnaryCall(grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
            CallStats* stats, std::string_view method)
      : context_(context),
        reactor_(context->DefaultReactor()),
        response_(response),
        meter_(stats, method) {}

  // What an operator asks for, for the log; nothing for other calls. Before the
  // call is copied.
  void Note(const google::protobuf::Message& request) {
    if (AdminOperationOf(meter_.method()) != nullptr) {
      change_ = ChangeIn(request);
    }
  }

  grpc::ServerUnaryReactor* Finish(const absl::Status& status) {
    if (const auto delay = RetryDelay(status); delay.has_value()) {
      context_->AddTrailingMetadata(
          "grpc-retry-pushback-ms",
          absl::StrCat(absl::ToInt64Milliseconds(*delay)));
    }
    meter_.End(static_cast<grpc::StatusCode>(status.code()));
    if (AdminOperationOf(meter_.method()) != nullptr) {
      LogAdminCall(meter_.method(), {meter_.NameOfCaller(*context_), change_},
                   status);
    }
    reactor_->Finish(ToGrpcStatus(status, EchoedRequestId(*context_)));
    return reactor_;
  }

  template <typename Response>
  grpc::ServerUnaryReactor* Finish(const absl::StatusOr<Response>& answer) {
    if (answer.ok()) *response_ = ToBytes(*answer);
    return Finish(answer.status());
  }

  grpc::ServerUnaryReactor* reactor() const { return reactor_; }

  // Whether nobody waits for the answer any more. Before Finish() only.
  bool cancelled() const { return context_->IsCancelled(); }

 private:
  grpc::CallbackServerContext* context_;
  grpc::ServerUnaryReactor* reactor_;
  grpc::ByteBuffer* response_;
  CallMeter meter_;
  std::string change_;  // see Note()
};

// Answers, on this thread, a call that needs the model, with what
// `answer(request, backend)` says.
template <typename Request, typename Answer>
grpc::ServerUnaryReactor* AnswerWithModel(UnaryCall call,
                                          const grpc::ByteBuffer& wire,
                                          const ServerState& state,
                                          const Answer& answer) {
  const absl::StatusOr<GenerationBackend*> backend = state.Loaded();
  if (!backend.ok()) return call.Finish(backend.status());
  const absl::StatusOr<Request> request = state.Parse<Request>(wire);
  if (!request.ok()) return call.Finish(request.status());
  return call.Finish(answer(*request, **backend));
}

// Answers a call that needs the model with what `answer(request, backend)`
// says, which may wait for the engine, on a thread of `work`. One that takes
// long wants to know whether it is still wanted: `answer(request, backend,
// wanted)`.
template <typename Request, typename Answer>
grpc::ServerUnaryReactor* AnswerFromPool(UnaryCall call,
                                         const grpc::ByteBuffer& wire,
                                         const ServerState& state,
                                         WorkPool& work, Answer answer) {
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state.Loaded());
    ASSIGN_OR_RETURN(Request request, state.Parse<Request>(wire));
    call.Note(request);
    return work.Post(
        [call, backend, request = std::move(request), answer]() mutable {
          // Who has given up must not find it done after all.
          if (call.cancelled()) {
            call.Finish(absl::CancelledError("the call was cancelled"));
            return;
          }
          if constexpr (std::is_invocable_v<Answer, const Request&,
                                            GenerationBackend&,
                                            const StillWanted&>) {
            call.Finish(answer(request, *backend,
                               [&call] { return !call.cancelled(); }));
          } else {
            call.Finish(answer(request, *backend));
          }
        });
  };
  if (const absl::Status started = start(); !started.ok()) {
    return call.Finish(started);
  }
  return call.reactor();
}

// What a method that is not built answers.
inline absl::Status NotBuilt(std::string_view method) {
  return absl::UnimplementedError(
      absl::StrCat(View(method), " is not built in this version"));
}

// A stream that ends before it begins, since the method is not built or for
// another reason. Destroys itself.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  RefusedStream(CallStats* stats, std::string_view method)
      : RefusedStream(stats, method, NotBuilt(method)) {}
  RefusedStream(CallStats* stats, std::string_view method,
                const absl::Status& status) {
    CallMeter meter(stats, method);
    meter.End(static_cast<grpc::StatusCode>(status.code()));
    Finish(ToGrpcStatus(status));
  }
  void OnDone() override { delete this; }
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_UNARY_CALL_H_
