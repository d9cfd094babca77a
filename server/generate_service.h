#ifndef KVASIR_SERVER_GENERATE_SERVICE_H_
#define KVASIR_SERVER_GENERATE_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

#include "kvasir/v1/inference.grpc.pb.h"
#include "server/call_stats.h"
#include "server/generate_reactor.h"
#include "server/server_state.h"

namespace kvasir {

// kvasir.v1.Inference on gRPC's threads: checks, tokenises, submits. Never
// waits for the engine. `state` and `stats` outlive the service.
class GenerateService final : public v1::Inference::CallbackService {
 public:
  GenerateService(ServerState* state, CallStats* stats,
                  GenerateReactor::Limits limits)
      : state_(state), stats_(stats), limits_(limits) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* CancelGeneration(
      grpc::CallbackServerContext* context,
      const v1::CancelGenerationRequest* request,
      v1::CancelGenerationResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerWriteReactor<v1::GetTokenizerResponse>* GetTokenizer(
      grpc::CallbackServerContext* context,
      const v1::GetTokenizerRequest* request) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* GetServerStatus(
      grpc::CallbackServerContext* context,
      const v1::GetServerStatusRequest* request,
      v1::GetServerStatusResponse* response) override;

 private:
  ServerState* const state_;
  CallStats* const stats_;
  const GenerateReactor::Limits limits_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_SERVICE_H_
