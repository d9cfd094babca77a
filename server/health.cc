#include "server/health.h"

#include <utility>

#include "cache/base/check.h"
#include "cache/base/clock.h"
#include "grpc/health/v1/health.pb.h"
#include "server/log.h"

namespace kvasir {
namespace {

constexpr const char* kServices[] = {"", "kvasir.v1.Inference",
                                     "kvasir.v1.CacheAdmin"};

}  // namespace

Health::Health(std::vector<grpc::HealthCheckServiceInterface*> services,
               ServerState* state, absl::Duration stall_limit,
               std::function<void()> on_broken)
    : services_(std::move(services)),
      state_(state),
      on_broken_(std::move(on_broken)),
      stall_(stall_limit) {
  // gRPC's health service is made without descriptors. That this one is used
  // links it, so that reflection can tell what it lists.
  KV_CHECK(::grpc::health::v1::HealthCheckRequest::descriptor() != nullptr);
  Tell("liveness", true);
  for (const char* name : kServices) Tell(name, false);
  thread_ = std::thread([this] { Run(); });
}

Health::~Health() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.join();
}

void Health::Tell(const char* name, bool serving) {
  for (grpc::HealthCheckServiceInterface* service : services_) {
    service->SetServingStatus(name, serving);
  }
}

void Health::Update() {
  bool newly_broken = false;
  bool newly_stalled = false;
  {
    absl::MutexLock lock(&mu_);
    bool healthy = false;
    if (const GenerationBackend* backend = state_->backend();
        backend != nullptr) {
      const EngineStats stats = backend->Stats();
      const bool stalled = stall_.Stalled(stats, Clock::Steady().Now());
      healthy = stats.healthy && !stalled;
      newly_broken = !stats.healthy && !broken_;
      broken_ = broken_ || !stats.healthy;
      newly_stalled = stalled && state_->healthy();
    }
    state_->SetHealthy(healthy);
    const bool serving = healthy && !state_->ready_held() &&
                         state_->phase() == ServerPhase::kServing;
    if (serving != serving_) {
      serving_ = serving;
      for (const char* name : kServices) Tell(name, serving);
    }
  }
  if (newly_stalled) {
    Log(LogLevel::kWarning, "the engine has work and finishes no step");
  }
  if (newly_broken && on_broken_) on_broken_();
}

void Health::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stop_), kPeriod)) return;
    }
    Update();
  }
}

}  // namespace kvasir
