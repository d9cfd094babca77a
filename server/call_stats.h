#ifndef KVASIR_SERVER_CALL_STATS_H_
#define KVASIR_SERVER_CALL_STATS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

#include "engine/engine_stats.h"

namespace kvasir {

// Full names of all methods of this server, "kvasir.v1.Inference/Generate", ...
const std::vector<std::string>& MethodNames();

// Calls per method as they start and end, for the exporter. Any thread; one of
// the server's objects that cross threads.
class CallStats {
 public:
  // Requests to Generate that ended before they reached the engine, which
  // counts its own refusals likewise.
  struct Refusals {
    int64_t invalid = 0;
    int64_t never_fits = 0;
    int64_t queue_full = 0;
    int64_t draining = 0;
  };

  // Plain values.
  struct Copy {
    std::map<std::string, int64_t> started;  // by method, all of them
    // By method and code, those seen.
    std::map<std::pair<std::string, grpc::StatusCode>, Histogram> durations;
    // Requests to Generate by how they ended, all codes.
    std::map<grpc::StatusCode, int64_t> generate_ends;
    Refusals refusals;
    // Calls refused for a limit of the server's, by the option that sets it;
    // those with an option from the start.
    std::map<std::string, int64_t> limit_refusals;
    int64_t slow_readers = 0;  // calls ended because their client did not read
  };

  CallStats();

  // What finds out who makes a call, for the log of what operators do. Once,
  // before the first call; then everybody is not "anonymous" any more.
  using CallerNamer =
      std::function<std::string(const grpc::CallbackServerContext&)>;
  void NameCallersBy(CallerNamer namer) { namer_ = std::move(namer); }
  std::string NameOfCaller(const grpc::CallbackServerContext& context) const {
    return namer_ ? namer_(context) : "anonymous";
  }

  void Start(std::string_view method) ABSL_LOCKS_EXCLUDED(mu_);
  void End(std::string_view method, grpc::StatusCode code,
           absl::Duration duration) ABSL_LOCKS_EXCLUDED(mu_);
  // `why`: the status that the request is refused with.
  void CountRefusal(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  void CountSlowReader() ABSL_LOCKS_EXCLUDED(mu_);
  Copy Read() const ABSL_LOCKS_EXCLUDED(mu_);

  // Generate calls that have not ended.
  int64_t open_generates() const ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until there are none; false on timeout.
  bool WaitGenerateIdle(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool GenerateIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return open_generates_ == 0;
  }

  CallerNamer namer_;  // fixed before the first call
  mutable absl::Mutex mu_;
  Copy stats_ ABSL_GUARDED_BY(mu_);
  int64_t open_generates_ ABSL_GUARDED_BY(mu_) = 0;
};

// One call's entry in the statistics, from its beginning to End().
class CallMeter {
 public:
  CallMeter(CallStats* stats, std::string_view method);
  void End(grpc::StatusCode code);
  const std::string& method() const { return method_; }
  // Who makes the call whose context this is.
  std::string NameOfCaller(const grpc::CallbackServerContext& context) const {
    return stats_->NameOfCaller(context);
  }

 private:
  CallStats* const stats_;
  const std::string method_;
  const absl::Duration start_;  // steady
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_CALL_STATS_H_
