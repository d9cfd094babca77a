#ifndef KVASIR_SERVER_ADMIN_SERVICE_H_
#define KVASIR_SERVER_ADMIN_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "kvasir/v1/cache_admin.grpc.pb.h"
#include "server/call_stats.h"
#include "server/memory_watch.h"
#include "server/prefix_service.h"
#include "server/server_state.h"
#include "server/unary_call.h"
#include "server/work_pool.h"

namespace kvasir {

// Every method takes bytes; see request_parse.h.
// clang-format off
using RawAdminService =
    v1::CacheAdmin::WithRawCallbackMethod_GetCacheStats<
    v1::CacheAdmin::WithRawCallbackMethod_WatchCacheStats<
    v1::CacheAdmin::WithRawCallbackMethod_ListPrefixes<
    v1::CacheAdmin::WithRawCallbackMethod_GetPrefix<
    v1::CacheAdmin::WithRawCallbackMethod_PinPrefix<
    v1::CacheAdmin::WithRawCallbackMethod_UnpinPrefix<
    v1::CacheAdmin::WithRawCallbackMethod_EvictPrefixes<
    v1::CacheAdmin::WithRawCallbackMethod_WarmCache<
    v1::CacheAdmin::WithRawCallbackMethod_ResizeCache<
    v1::CacheAdmin::WithRawCallbackMethod_FlushCache<
    v1::CacheAdmin::WithRawCallbackMethod_ListCacheVersions<
    v1::CacheAdmin::WithRawCallbackMethod_CreateCacheVersion<
    v1::CacheAdmin::WithRawCallbackMethod_ActivateCacheVersion<
    v1::CacheAdmin::WithRawCallbackMethod_RollbackCacheVersion<
    v1::CacheAdmin::WithRawCallbackMethod_DeleteCacheVersion<
    v1::CacheAdmin::WithRawCallbackMethod_SaveSnapshot<
    v1::CacheAdmin::WithRawCallbackMethod_RestoreSnapshot<
    v1::CacheAdmin::WithRawCallbackMethod_GetCachePolicy<
    v1::CacheAdmin::WithRawCallbackMethod_UpdateCachePolicy<
    v1::CacheAdmin::WithRawCallbackMethod_WatchCacheEvents<
    v1::CacheAdmin::Service>>>>>>>>>>>>>>>>>>>>;
// clang-format on

// A method of CacheAdmin that is not built: UNIMPLEMENTED with its name.
#define KVASIR_REFUSED_UNARY(Method)                                          \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,      \
                                   const grpc::ByteBuffer* wire,              \
                                   grpc::ByteBuffer* answer) override {       \
    UnaryCall call(context, answer, stats_, "kvasir.v1.CacheAdmin/" #Method); \
    return call.Finish(NotBuilt("kvasir.v1.CacheAdmin/" #Method));            \
  }
#define KVASIR_REFUSED_STREAM(Method)                                     \
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Method(                     \
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) \
      override {                                                          \
    return new RefusedStream(stats_, "kvasir.v1.CacheAdmin/" #Method);    \
  }

// A method of CacheAdmin that AnswerMethod() answers on a pool.
#define KVASIR_POOLED_UNARY(Method, pool)                                    \
  grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,     \
                                   const grpc::ByteBuffer* wire,             \
                                   grpc::ByteBuffer* answer) override {      \
    return AnswerFromPool<v1::Method##Request>(                              \
        UnaryCall(context, answer, stats_, "kvasir.v1.CacheAdmin/" #Method), \
        *wire, *state_, *pool, Answer##Method);                              \
  }

// kvasir.v1.CacheAdmin. What waits for the engine runs on `work`, not on gRPC's
// threads. What takes longer runs elsewhere, so that no other call waits behind
// it: walks through the cache on `walking`, which has one thread for them all,
// and prompts to be warmed are tokenised on `warming`. What is pointed to
// outlives the service. GuardedAdmin is what the wire sees.
class AdminService : public RawAdminService {
 public:
  AdminService(ServerState* state, CallStats* stats, WorkPool* work,
               WorkPool* walking, WorkPool* warming, MemoryWatch* memory)
      : state_(state),
        stats_(stats),
        work_(work),
        walking_(walking),
        warming_(warming),
        memory_(memory) {}

  grpc::ServerUnaryReactor* GetCacheStats(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* wire,
                                          grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* FlushCache(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* wire,
                                       grpc::ByteBuffer* answer) override;

  grpc::ServerWriteReactor<grpc::ByteBuffer>* ResizeCache(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* wire) override;

  grpc::ServerUnaryReactor* ListCacheVersions(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* CreateCacheVersion(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* wire) override;
  grpc::ServerUnaryReactor* ActivateCacheVersion(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* RollbackCacheVersion(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* DeleteCacheVersion(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
      grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* WarmCache(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* wire) override;

  KVASIR_POOLED_UNARY(ListPrefixes, walking_)
  KVASIR_POOLED_UNARY(GetPrefix, work_)
  KVASIR_POOLED_UNARY(PinPrefix, work_)
  KVASIR_POOLED_UNARY(UnpinPrefix, work_)
  KVASIR_POOLED_UNARY(EvictPrefixes, walking_)

  KVASIR_REFUSED_STREAM(WatchCacheStats)
  KVASIR_REFUSED_STREAM(SaveSnapshot)
  KVASIR_REFUSED_STREAM(RestoreSnapshot)
  KVASIR_REFUSED_UNARY(GetCachePolicy)
  KVASIR_REFUSED_UNARY(UpdateCachePolicy)
  KVASIR_REFUSED_STREAM(WatchCacheEvents)

 private:
  ServerState* const state_;
  CallStats* const stats_;
  WorkPool* const work_;
  WorkPool* const walking_;
  WorkPool* const warming_;
  MemoryWatch* const memory_;
};

#undef KVASIR_POOLED_UNARY
#undef KVASIR_REFUSED_UNARY
#undef KVASIR_REFUSED_STREAM

}  // namespace kvasir

#endif  // KVASIR_SERVER_ADMIN_SERVICE_H_
