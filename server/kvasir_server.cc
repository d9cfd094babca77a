#include "server/kvasir_server.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/call_stats.h"
#include "server/generate_service.h"
#include "server/guarded_services.h"
#include "server/health.h"
#include "server/listen_check.h"
#include "server/log.h"
#include "server/memory_watch.h"
#include "server/metrics_exporter.h"
#include "server/metrics_http.h"
#include "server/secrets.h"
#include "server/tenant_gate.h"
#include "server/work_pool.h"

namespace kvasir {
namespace {

// Keepalive, so that a client that is gone without a word frees its blocks:
// a ping after a minute of silence, and 20 seconds to answer it. Clients may
// ping every 10 seconds, also without a call.
constexpr int kKeepaliveMs = 60 * 1000;
constexpr int kKeepaliveTimeoutMs = 20 * 1000;
constexpr int kMinClientPingMs = 10 * 1000;

// After the engine has let go of every request, their last messages are on the
// way; so long they may take before connections are cut.
constexpr auto kLastWords = std::chrono::milliseconds(500);

// Long texts, each at most kMaxPromptBytes. Few threads: the engine needs the
// cores, and a text takes a second at the worst.
constexpr int kTokenizeThreads = 2;
constexpr size_t kMaxTokenizeTasks = 64;

// WarmCache calls whose prompts are not tokenised yet. One thread: warm-ups are
// in no hurry, and a call of the largest size takes it minutes.
constexpr size_t kMaxWaitingWarmCalls = 16;
constexpr size_t kMaxWaitingWarmBytes = size_t{256} << 20;

// gRPC reads a message to its end before anybody hears of its length, so its
// own limit would save no memory, and its words do not name ours: ServerState
// refuses what is too large. What gRPC itself may hold for all clients together
// is bounded here, far above what is asked for in earnest, because it ends
// streams of any client when it has reached that.
constexpr int64_t kMinReceiveBytes = int64_t{1} << 30;
constexpr int64_t kReceiveFactor = 8;

void Configure(const ServerConfig& config, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(-1);
  grpc::ResourceQuota quota("kvasir");
  quota.Resize(static_cast<size_t>(
      std::max(kMinReceiveBytes, kReceiveFactor * config.max_message_bytes)));
  builder.SetResourceQuota(quota);
  // A compressed message is unpacked before its size is looked at, so that a
  // small one could take any amount of memory.
  for (const grpc_compression_algorithm packed :
       {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(packed, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinClientPingMs);
}

// Where gRPC listens.
struct Listener {
  HostPort address;
  std::unique_ptr<grpc::Server> server;
};

// Whoever opens a listener to others had better know that he does.
void WarnIfOpen(const std::string& what, const HostPort& address,
                const SecretPaths& secrets) {
  if (address.IsLoopback() || !secrets.token_file.empty() ||
      !secrets.tls.client_ca.empty()) {
    return;
  }
  Log(LogLevel::kWarning,
      "everybody who can reach this address may call (see --token-file and "
      "--tls-client-ca)",
      {{"listener", what},
       {"address", address.ToString()},
       {"tls", secrets.tls.enabled() ? "yes" : "no"}});
}

}  // namespace

// Members in order of need: what a later one uses stands before it, and is
// destroyed after it.
struct KvasirServer::Impl {
  Impl(const ServerConfig& config, Secrets::Staged staged)
      : state(config.max_message_bytes),
        secrets(std::move(staged)),
        memory(config.sizing),
        exporter(&state, &calls, &memory, &secrets),
        tenants(config.tenant_limits, &Clock::Steady()) {
    calls.NameCallersBy([this](const grpc::CallbackServerContext& context) {
      const absl::StatusOr<Caller> caller = secrets.guard()->Identify(context);
      if (!caller.ok()) return std::string("unknown");
      return caller->tenant.empty() ? "anonymous" : caller->tenant;
    });
  }

  ServerState state;
  CallStats calls;
  Secrets secrets;
  MemoryWatch memory;
  MetricsExporter exporter;
  TenantGate tenants;
  // The engine's last words go to sinks that the services have made.
  std::unique_ptr<grpc::Service> inference;
  std::unique_ptr<grpc::Service> admin;
  std::unique_ptr<grpc::Service> no_admin;  // where another listener has it
  std::unique_ptr<GenerationBackend> backend;
  WorkPool walking{{.task_name = "walks through the cache"}};
  WorkPool administering{{.task_name = "administrative calls"}};
  WorkPool warming{{.max_tasks = kMaxWaitingWarmCalls,
                    .max_bytes = kMaxWaitingWarmBytes,
                    .task_name = "warm calls"}};
  WorkPool tokenizing{{.threads = kTokenizeThreads,
                       .max_tasks = kMaxTokenizeTasks,
                       .task_name = "texts to be tokenised"}};
  Listener main;
  Listener admin_only;  // no server: there is no such listener
  std::unique_ptr<Health> health;
  std::unique_ptr<MetricsHttp> http;

  absl::Status Listen(const ServerConfig& config);
  absl::StatusOr<Listener> Listen(const ServerConfig& config,
                                  const std::string& what,
                                  const HostPort& address,
                                  std::vector<grpc::Service*> services);
};

absl::Status KvasirServer::Impl::Listen(const ServerConfig& config) {
  const ServiceParts parts = {.state = &state,
                              .calls = &calls,
                              .guard = secrets.guard(),
                              .memory = &memory,
                              .tenants = &tenants,
                              .tokenizing = &tokenizing,
                              .administering = &administering,
                              .walking = &walking,
                              .warming = &warming};
  inference = MakeInference(
      parts,
      GenerateSettings{.queue = {.messages = config.stream_queue_limit,
                                 .timeout = config.slow_reader_timeout},
                       .max_streams = config.max_streams,
                       .logged_prompt_ratio = config.logged_prompt_ratio});
  admin = MakeAdmin(parts, absl::OkStatus());
  if (!config.admin_listen.has_value()) {
    ASSIGN_OR_RETURN(main, Listen(config, "server.listen", config.listen,
                                  {inference.get(), admin.get()}));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(admin_only, Listen(config, "server.admin_listen",
                                      *config.admin_listen, {admin.get()}));
  no_admin = MakeAdmin(
      parts,
      absl::UnimplementedError(absl::StrCat(
          "this listener has no kvasir.v1.CacheAdmin, which is served on ",
          admin_only.address.ToString(), " (server.admin_listen)")));
  ASSIGN_OR_RETURN(main, Listen(config, "server.listen", config.listen,
                                {inference.get(), no_admin.get()}));
  return absl::OkStatus();
}

absl::StatusOr<Listener> KvasirServer::Impl::Listen(
    const ServerConfig& config, const std::string& what,
    const HostPort& address, std::vector<grpc::Service*> services) {
  RETURN_IF_ERROR(CheckCanListen(what, address));
  // Both are process-wide and take effect for servers built afterwards.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(config, builder);
  int port = 0;
  builder.AddListeningPort(address.ToString(), secrets.MakeCredentials(),
                           &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  Listener listener;
  listener.server = builder.BuildAndStart();
  if (listener.server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat(what, " ", address.ToString(),
                                               ": gRPC cannot listen on port ",
                                               address.port));
  }
  listener.address = {address.host, port};
  WarnIfOpen(what, listener.address, config.secrets);
  return listener;
}

absl::StatusOr<std::unique_ptr<KvasirServer>> KvasirServer::Start(
    const ServerConfig& config, std::function<void()> on_broken) {
  ASSIGN_OR_RETURN(Secrets::Staged staged, Secrets::Read(config.secrets));
  auto impl = std::make_unique<Impl>(config, std::move(staged));
  RETURN_IF_ERROR(impl->Listen(config));
  std::vector<grpc::HealthCheckServiceInterface*> health;
  for (const Listener* listener : {&impl->main, &impl->admin_only}) {
    if (listener->server == nullptr) continue;
    health.push_back(listener->server->GetHealthCheckService());
  }
  impl->health =
      std::make_unique<Health>(std::move(health), &impl->state,
                               config.stall_timeout, std::move(on_broken));
  ASSIGN_OR_RETURN(
      impl->http,
      MetricsHttp::Start(config.metrics_listen, &impl->state, &impl->exporter));
  return std::unique_ptr<KvasirServer>(new KvasirServer(std::move(impl)));
}

KvasirServer::KvasirServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

KvasirServer::~KvasirServer() {
  BeginDrain();
  if (impl_->backend != nullptr) {
    impl_->backend->CancelAll(CancelSource::kDrain, "the server is stopping");
  }
  // Before the engine goes: calls that end tell it so.
  impl_->health.reset();
  impl_->memory.Stop();
  const auto deadline = std::chrono::system_clock::now() + kLastWords;
  for (const Listener* listener : {&impl_->main, &impl_->admin_only}) {
    if (listener->server == nullptr) continue;
    listener->server->Shutdown(deadline);
    listener->server->Wait();
  }
}

void KvasirServer::SetLoadProgress(int64_t done_bytes, int64_t total_bytes) {
  impl_->state.SetLoadProgress(done_bytes, total_bytes);
}

absl::StatusOr<int64_t> KvasirServer::SizeCache(const CacheSizeQuery& query) {
  return impl_->memory.SizeCache(query);
}

absl::StatusOr<WeightRoom> KvasirServer::HoldWeights(int64_t bytes) {
  return impl_->memory.HoldWeights(bytes);
}

void KvasirServer::Serve(std::unique_ptr<GenerationBackend> backend) {
  impl_->backend = std::move(backend);
  // Before calls can ask for weights to be read.
  impl_->memory.Start(impl_->backend.get());
  impl_->state.Serve(impl_->backend.get());
  impl_->health->Update();
}

void KvasirServer::HoldReady() { impl_->state.HoldReady(); }

void KvasirServer::ReleaseReady() {
  impl_->state.ReleaseReady();
  impl_->health->Update();
}

void KvasirServer::Leave() {
  impl_->state.Leave();
  impl_->health->Update();
}

void KvasirServer::BeginDrain() {
  impl_->state.BeginDrain();
  if (impl_->health != nullptr) impl_->health->Update();
  if (impl_->backend != nullptr) impl_->backend->BeginDrain();
}

int64_t KvasirServer::FinishDrain(absl::Duration grace) {
  GenerationBackend* backend = impl_->backend.get();
  if (backend == nullptr) return 0;
  const absl::Duration deadline = Clock::Steady().Now() + grace;
  if (backend->WaitIdle(grace)) {
    // The engine has ended; the last messages may still wait for their reader.
    impl_->calls.WaitGenerateIdle(deadline - Clock::Steady().Now());
    return 0;
  }
  const int64_t left = impl_->calls.open_generates();
  backend->CancelAll(CancelSource::kDrain,
                     absl::StrCat("the grace period of ",
                                  absl::FormatDuration(grace), " is over"));
  backend->WaitIdle(absl::InfiniteDuration());
  return left;
}

const HostPort& KvasirServer::grpc_address() const {
  return impl_->main.address;
}

std::optional<HostPort> KvasirServer::admin_address() const {
  if (impl_->admin_only.server == nullptr) return std::nullopt;
  return impl_->admin_only.address;
}

const HostPort& KvasirServer::metrics_address() const {
  return impl_->http->address();
}

void KvasirServer::SetTenantLimits(std::vector<TenantLimit> limits) {
  impl_->tenants.SetLimits(std::move(limits));
}

ServerState& KvasirServer::state() { return impl_->state; }

Secrets& KvasirServer::secrets() { return impl_->secrets; }

}  // namespace kvasir
