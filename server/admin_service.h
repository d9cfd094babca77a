#ifndef KVASIR_SERVER_ADMIN_SERVICE_H_
#define KVASIR_SERVER_ADMIN_SERVICE_H_

#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

#include "kvasir/v1/cache_admin.grpc.pb.h"
#include "server/call_stats.h"
#include "server/server_state.h"
#include "server/unary_call.h"
#include "server/work_thread.h"

namespace kvasir {

// Longest FlushCacheRequest.wait.
inline constexpr absl::Duration kMaxFlushWait = absl::Minutes(10);

// A method of CacheAdmin that is not built: UNIMPLEMENTED with its name.
#define KVASIR_REFUSED_UNARY(Method)                                          \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,      \
                                   const v1::Method##Request* request,        \
                                   v1::Method##Response* response) override { \
    UnaryCall call(context, response, stats_,                                 \
                   "kvasir.v1.CacheAdmin/" #Method);                          \
    return call.Finish(NotBuilt("kvasir.v1.CacheAdmin/" #Method));            \
  }
#define KVASIR_REFUSED_STREAM(Method)                     \
  grpc::ServerWriteReactor<v1::Method##Response>* Method( \
      grpc::CallbackServerContext* context,               \
      const v1::Method##Request* request) override {      \
    return new RefusedStream<v1::Method##Response>(       \
        stats_, "kvasir.v1.CacheAdmin/" #Method);         \
  }

// kvasir.v1.CacheAdmin. What waits for the engine runs on `work`, not on gRPC's
// threads. `state`, `stats` and `work` outlive the service.
class AdminService final : public v1::CacheAdmin::CallbackService {
 public:
  AdminService(ServerState* state, CallStats* stats, WorkThread* work)
      : state_(state), stats_(stats), work_(work) {}

  grpc::ServerUnaryReactor* GetCacheStats(
      grpc::CallbackServerContext* context,
      const v1::GetCacheStatsRequest* request,
      v1::GetCacheStatsResponse* response) override;
  grpc::ServerUnaryReactor* FlushCache(
      grpc::CallbackServerContext* context,
      const v1::FlushCacheRequest* request,
      v1::FlushCacheResponse* response) override;

  KVASIR_REFUSED_STREAM(WatchCacheStats)
  KVASIR_REFUSED_UNARY(ListPrefixes)
  KVASIR_REFUSED_UNARY(GetPrefix)
  KVASIR_REFUSED_UNARY(PinPrefix)
  KVASIR_REFUSED_UNARY(UnpinPrefix)
  KVASIR_REFUSED_UNARY(EvictPrefixes)
  KVASIR_REFUSED_STREAM(WarmCache)
  KVASIR_REFUSED_STREAM(ResizeCache)
  KVASIR_REFUSED_UNARY(ListCacheVersions)
  KVASIR_REFUSED_STREAM(CreateCacheVersion)
  KVASIR_REFUSED_UNARY(ActivateCacheVersion)
  KVASIR_REFUSED_UNARY(RollbackCacheVersion)
  KVASIR_REFUSED_UNARY(DeleteCacheVersion)
  KVASIR_REFUSED_STREAM(SaveSnapshot)
  KVASIR_REFUSED_STREAM(RestoreSnapshot)
  KVASIR_REFUSED_UNARY(GetCachePolicy)
  KVASIR_REFUSED_UNARY(UpdateCachePolicy)
  KVASIR_REFUSED_STREAM(WatchCacheEvents)

 private:
  ServerState* const state_;
  CallStats* const stats_;
  WorkThread* const work_;
};

#undef KVASIR_REFUSED_UNARY
#undef KVASIR_REFUSED_STREAM

}  // namespace kvasir

#endif  // KVASIR_SERVER_ADMIN_SERVICE_H_
