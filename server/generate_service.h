#ifndef KVASIR_SERVER_GENERATE_SERVICE_H_
#define KVASIR_SERVER_GENERATE_SERVICE_H_

#include <cstdint>

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "kvasir/v1/inference.grpc.pb.h"
#include "server/call_guard.h"
#include "server/call_stats.h"
#include "server/generate_reactor.h"
#include "server/id_owners.h"
#include "server/server_state.h"
#include "server/stream_gate.h"
#include "server/tenant_gate.h"
#include "server/work_pool.h"
#include "server/write_queue.h"

namespace kvasir {

// Every method takes bytes, so that this server says itself what is wrong with
// them; see request_parse.h.
// clang-format off
using RawInferenceService =
    v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_CancelGeneration<
    v1::Inference::WithRawCallbackMethod_Tokenize<
    v1::Inference::WithRawCallbackMethod_Detokenize<
    v1::Inference::WithRawCallbackMethod_GetTokenizer<
    v1::Inference::WithRawCallbackMethod_ListModels<
    v1::Inference::WithRawCallbackMethod_GetModel<
    v1::Inference::WithRawCallbackMethod_GetServerStatus<
    v1::Inference::Service>>>>>>>>;
// clang-format on

// What the operator allows of Generate calls, and wants to know of them.
struct GenerateSettings {
  WriteQueue::Limits queue;
  int64_t max_streams = 0;         // calls at a time
  double logged_prompt_ratio = 0;  // of all prompts
};

// kvasir.v1.Inference on gRPC's threads: checks, tokenises, submits. Never
// waits for the engine. Long texts are tokenised on `work`. All pointers
// outlive the service, and the service every sink that it has given to the
// engine. GuardedInference is what the wire sees.
class GenerateService : public RawInferenceService {
 public:
  GenerateService(ServerState* state, CallStats* stats, WorkPool* work,
                  const CallGuard* callers, TenantGate* tenants,
                  const GenerateSettings& settings)
      : state_(state),
        stats_(stats),
        work_(work),
        callers_(callers),
        tenants_(tenants),
        settings_(settings),
        streams_(settings.max_streams) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* wire) override;
  grpc::ServerUnaryReactor* CancelGeneration(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* wire,
                                     grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* wire,
                                       grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* GetTokenizer(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* wire) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* wire,
                                       grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* wire,
                                     grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* GetServerStatus(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;

 private:
  ServerState* const state_;
  CallStats* const stats_;
  WorkPool* const work_;
  const CallGuard* const callers_;
  TenantGate* const tenants_;
  const GenerateSettings settings_;
  StreamGate streams_;
  IdOwners ids_;  // of the calls that the engine has
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_SERVICE_H_
