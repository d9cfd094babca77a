#include "server/guarded_services.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "server/admin_service.h"
#include "server/call_guard.h"
#include "server/generate_service.h"
#include "server/unary_call.h"

namespace kvasir {
namespace {

// Every method of the .proto files has a line here, and a test calls all that
// the descriptors know, so that none is forgotten.

#define KVASIR_GUARDED_UNARY(Base, Method)                                    \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,      \
                                   const grpc::ByteBuffer* wire,              \
                                   grpc::ByteBuffer* answer) override {       \
    const absl::Status allowed = Allowed(*context, #Method);                  \
    if (allowed.ok()) return Base::Method(context, wire, answer);             \
    return UnaryCall(context, answer, stats_, Name(#Method)).Finish(allowed); \
  }
#define KVASIR_GUARDED_STREAM(Base, Method)                               \
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Method(                     \
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) \
      override {                                                          \
    const absl::Status allowed = Allowed(*context, #Method);              \
    if (allowed.ok()) return Base::Method(context, wire);                 \
    return new RefusedStream(stats_, Name(#Method), allowed);             \
  }

class GuardedInference final : public GenerateService {
 public:
  // As GenerateService.
  GuardedInference(const ServiceParts& parts, const GenerateSettings& settings)
      : GenerateService(parts.state, parts.calls, parts.tokenizing, parts.guard,
                        parts.tenants, settings),
        stats_(parts.calls),
        guard_(parts.guard) {}

  KVASIR_GUARDED_STREAM(GenerateService, Generate)
  KVASIR_GUARDED_UNARY(GenerateService, CancelGeneration)
  KVASIR_GUARDED_UNARY(GenerateService, Tokenize)
  KVASIR_GUARDED_UNARY(GenerateService, Detokenize)
  KVASIR_GUARDED_STREAM(GenerateService, GetTokenizer)
  KVASIR_GUARDED_UNARY(GenerateService, ListModels)
  KVASIR_GUARDED_UNARY(GenerateService, GetModel)
  KVASIR_GUARDED_UNARY(GenerateService, GetServerStatus)

 private:
  static std::string Name(const char* method) {
    return std::string("kvasir.v1.Inference/") + method;
  }
  absl::Status Allowed(const grpc::CallbackServerContext& context,
                       std::string_view method) {
    if (method != "CancelGeneration") {
      return guard_->Admit(context, Scope::kInference);
    }
    return guard_->Admit(context, Scope::kInference, Scope::kAdmin);
  }

  CallStats* const stats_;
  CallGuard* const guard_;
};

class GuardedAdmin final : public AdminService {
 public:
  // `elsewhere`: OK, or what all calls are told since another listener answers
  // them. The rest as AdminService; `guard` outlives it, too.
  GuardedAdmin(ServerState* state, CallStats* stats, WorkPool* work,
               WorkPool* walking, WorkPool* warming, MemoryWatch* memory,
               CallGuard* guard, absl::Status elsewhere)
      : AdminService(state, stats, work, walking, warming, memory),
        stats_(stats),
        guard_(guard),
        elsewhere_(std::move(elsewhere)) {}

  KVASIR_GUARDED_UNARY(AdminService, GetCacheStats)
  KVASIR_GUARDED_STREAM(AdminService, WatchCacheStats)
  KVASIR_GUARDED_UNARY(AdminService, ListPrefixes)
  KVASIR_GUARDED_UNARY(AdminService, GetPrefix)
  KVASIR_GUARDED_UNARY(AdminService, PinPrefix)
  KVASIR_GUARDED_UNARY(AdminService, UnpinPrefix)
  KVASIR_GUARDED_UNARY(AdminService, EvictPrefixes)
  KVASIR_GUARDED_STREAM(AdminService, WarmCache)
  KVASIR_GUARDED_STREAM(AdminService, ResizeCache)
  KVASIR_GUARDED_UNARY(AdminService, FlushCache)
  KVASIR_GUARDED_UNARY(AdminService, ListCacheVersions)
  KVASIR_GUARDED_STREAM(AdminService, CreateCacheVersion)
  KVASIR_GUARDED_UNARY(AdminService, ActivateCacheVersion)
  KVASIR_GUARDED_UNARY(AdminService, RollbackCacheVersion)
  KVASIR_GUARDED_UNARY(AdminService, DeleteCacheVersion)
  KVASIR_GUARDED_STREAM(AdminService, SaveSnapshot)
  KVASIR_GUARDED_STREAM(AdminService, RestoreSnapshot)
  KVASIR_GUARDED_UNARY(AdminService, GetCachePolicy)
  KVASIR_GUARDED_UNARY(AdminService, UpdateCachePolicy)
  KVASIR_GUARDED_STREAM(AdminService, WatchCacheEvents)

 private:
  static std::string Name(const char* method) {
    return std::string("kvasir.v1.CacheAdmin/") + method;
  }
  absl::Status Allowed(const grpc::CallbackServerContext& context,
                       std::string_view method) {
    const absl::Status admitted = guard_->Admit(context, Scope::kAdmin);
    return admitted.ok() ? elsewhere_ : admitted;
  }

  CallStats* const stats_;
  CallGuard* const guard_;
  const absl::Status elsewhere_;
};

#undef KVASIR_GUARDED_UNARY
#undef KVASIR_GUARDED_STREAM

}  // namespace

std::unique_ptr<grpc::Service> MakeInference(const ServiceParts& parts,
                                             const GenerateSettings& settings) {
  return std::make_unique<GuardedInference>(parts, settings);
}

std::unique_ptr<grpc::Service> MakeAdmin(const ServiceParts& parts,
                                         absl::Status elsewhere) {
  return std::make_unique<GuardedAdmin>(
      parts.state, parts.calls, parts.administering, parts.walking,
      parts.warming, parts.memory, parts.guard, std::move(elsewhere));
}

}  // namespace kvasir
