#ifndef KVASIR_SERVER_HEALTH_H_
#define KVASIR_SERVER_HEALTH_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"

#include "server/server_state.h"
#include "server/stall_detector.h"

namespace kvasir {

// Keeps grpc.health.v1 and ServerState::healthy() true to what the engine can
// do. "", kvasir.v1.Inference and kvasir.v1.CacheAdmin are SERVING exactly if a
// token could be made now: the model is loaded, the server does not drain, the
// engine is neither broken nor stuck; and nobody holds readiness until the
// cache is warm. "liveness" is SERVING as long as the process lives.
//
// Looks every kPeriod on a thread of its own; Update() looks at once.
class Health {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(200);

  // `services`, one for each gRPC server, and `state` outlive it. `on_broken`
  // is called once, on the thread, when the engine says that no request can
  // survive any more; may be empty.
  Health(std::vector<grpc::HealthCheckServiceInterface*> services,
         ServerState* state, absl::Duration stall_limit,
         std::function<void()> on_broken);
  ~Health();

  // Any thread. What health says afterwards is what the state was.
  void Update() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run();

  void Tell(const char* name, bool serving);

  const std::vector<grpc::HealthCheckServiceInterface*> services_;
  ServerState* const state_;
  const std::function<void()> on_broken_;

  absl::Mutex mu_;
  StallDetector stall_ ABSL_GUARDED_BY(mu_);
  bool serving_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_HEALTH_H_
