#include "server/metrics_http.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "httplib.h"
#include "server/listen_check.h"

namespace kvasir {
namespace {

constexpr size_t kHttpThreads = 2;
// A peer that is silent for so long loses its connection, and the thread is
// free again.
constexpr time_t kIoTimeoutSeconds = 2;
constexpr size_t kMaxRequestBytes = 4096;

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

struct MetricsHttp::Impl {
  httplib::Server server;
  HostPort address;
  std::thread thread;

  void Route(const ServerState* state, const MetricsExporter* exporter);
};

void MetricsHttp::Impl::Route(const ServerState* state,
                              const MetricsExporter* exporter) {
  server.Get("/metrics",
             [exporter](const httplib::Request&, httplib::Response& response) {
               response.set_content(exporter->Text(), kMetricsText);
             });
  server.Get("/livez",
             [](const httplib::Request&, httplib::Response& response) {
               response.set_content("ok\n", kText);
             });
  const auto ready = [state](const httplib::Request&,
                             httplib::Response& response) {
    const std::string reason = WhyNotReady(*state);
    response.status = reason.empty() ? 200 : 503;
    response.set_content(reason.empty() ? "ok\n" : reason + "\n", kText);
  };
  server.Get("/readyz", ready);
  server.Get("/healthz", ready);
}

absl::StatusOr<std::unique_ptr<MetricsHttp>> MetricsHttp::Start(
    const HostPort& listen, const ServerState* state,
    const MetricsExporter* exporter) {
  RETURN_IF_ERROR(CheckCanListen("metrics.listen", listen));
  auto impl = std::make_unique<Impl>();
  impl->address = listen;
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kHttpThreads); };
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kIoTimeoutSeconds);
  server.set_write_timeout(kIoTimeoutSeconds);
  server.set_payload_max_length(kMaxRequestBytes);
  // The library's default lets a second process share the port.
  server.set_socket_options([](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  impl->Route(state, exporter);
  if (listen.port == 0) {
    impl->address.port = server.bind_to_any_port(listen.host);
  } else if (!server.bind_to_port(listen.host, listen.port)) {
    impl->address.port = -1;
  }
  if (impl->address.port <= 0) {
    return absl::UnavailableError(absl::StrCat(
        "metrics.listen ", listen.ToString(), ": cannot listen there"));
  }
  impl->thread = std::thread([&server] { server.listen_after_bind(); });
  return std::unique_ptr<MetricsHttp>(new MetricsHttp(std::move(impl)));
}

MetricsHttp::MetricsHttp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsHttp::~MetricsHttp() {
  // stop() is ignored before the loop has begun.
  while (!impl_->server.is_running()) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
}

const HostPort& MetricsHttp::address() const { return impl_->address; }

std::string WhyNotReady(const ServerState& state) {
  if (const auto accepting = state.Accepting(); !accepting.ok()) {
    return std::string(accepting.status().message());
  }
  return state.healthy() ? "" : "the engine is stalled or broken";
}

}  // namespace kvasir
