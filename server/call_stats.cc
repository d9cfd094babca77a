#include "server/call_stats.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "kvasir/v1/inference.pb.h"
#include "server/status_reason.h"

namespace kvasir {
namespace {

constexpr std::string_view kGenerate = "kvasir.v1.Inference/Generate";

// Options whose limits the server itself keeps.
constexpr const char* kLimitOptions[] = {
    "server.max_message", "server.max_streams", "server.tenant_limits"};

// From a fast unary call to a long generation.
std::vector<double> DurationBounds() {
  return {.0005, .001, .0025, .005, .01, .025, .05, .1,  .25,
          .5,    1,    2.5,   5,    10,  30,   60,  300, 1800};
}

void AddMethods(const google::protobuf::ServiceDescriptor* service,
                std::vector<std::string>& names) {
  for (int i = 0; i < service->method_count(); ++i) {
    names.push_back(
        absl::StrCat(service->full_name(), "/", service->method(i)->name()));
  }
}

}  // namespace

const std::vector<std::string>& MethodNames() {
  static const auto* const names = [] {
    auto* list = new std::vector<std::string>;
    AddMethods(v1::GenerateRequest::descriptor()->file()->service(0), *list);
    AddMethods(v1::FlushCacheRequest::descriptor()->file()->service(0), *list);
    return list;
  }();
  return *names;
}

CallStats::CallStats() {
  for (const std::string& name : MethodNames()) stats_.started[name] = 0;
  for (const char* option : kLimitOptions) stats_.limit_refusals[option] = 0;
  for (int code = 0; code <= grpc::StatusCode::UNAUTHENTICATED; ++code) {
    stats_.generate_ends[static_cast<grpc::StatusCode>(code)] = 0;
  }
}

void CallStats::Start(std::string_view method) {
  absl::MutexLock lock(&mu_);
  ++stats_.started[std::string(method)];
  if (method == kGenerate) ++open_generates_;
}

void CallStats::End(std::string_view method, grpc::StatusCode code,
                    absl::Duration duration) {
  absl::MutexLock lock(&mu_);
  const auto [it, fresh] =
      stats_.durations.try_emplace({std::string(method), code});
  if (fresh) it->second = Histogram(DurationBounds());
  it->second.Add(absl::ToDoubleSeconds(duration));
  if (method != kGenerate) return;
  ++stats_.generate_ends[code];
  --open_generates_;
}

void CallStats::CountRefusal(const absl::Status& why) {
  const std::string reason = ReasonOf(why);
  const std::optional<LimitInfo> limit = LimitOf(why);
  absl::MutexLock lock(&mu_);
  if (limit.has_value()) {
    const auto it = stats_.limit_refusals.find(limit->name);
    if (it != stats_.limit_refusals.end()) {
      ++it->second;
      return;
    }
  }
  Refusals& refusals = stats_.refusals;
  if (reason == kReasonDraining) {
    ++refusals.draining;
  } else if (reason == kReasonQueueFull) {
    ++refusals.queue_full;
  } else if (reason == kReasonCacheTooSmall) {
    ++refusals.never_fits;
  } else if (!absl::IsUnavailable(why) && !absl::IsCancelled(why)) {
    // Neither is the request's fault: the model loads, or the client left.
    ++refusals.invalid;
  }
}

void CallStats::CountSlowReader() {
  absl::MutexLock lock(&mu_);
  ++stats_.slow_readers;
}

int64_t CallStats::open_generates() const {
  absl::MutexLock lock(&mu_);
  return open_generates_;
}

bool CallStats::WaitGenerateIdle(absl::Duration timeout) const {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(this, &CallStats::GenerateIdle),
                              timeout);
}

CallStats::Copy CallStats::Read() const {
  absl::MutexLock lock(&mu_);
  return stats_;
}

CallMeter::CallMeter(CallStats* stats, std::string_view method)
    : stats_(stats), method_(method), start_(Clock::Steady().Now()) {
  stats_->Start(method_);
}

void CallMeter::End(grpc::StatusCode code) {
  stats_->End(method_, code, Clock::Steady().Now() - start_);
}

}  // namespace kvasir
