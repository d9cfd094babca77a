#include "server/metrics_http.h"

#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "cache/base/status_macros.h"
#include "httplib.h"
#include "server/listen_check.h"
#include "server/log.h"

namespace kvasir {
namespace {

// A connection takes a thread from its first byte, or its silence, to its end.
// More than a few scrapers and probes, so that some that say nothing, such as a
// port scan, do not keep the others out.
constexpr size_t kHttpThreads = 16;
// A peer that says nothing for so long loses its connection, and the thread is
// free again: one that has not begun, and one that stops half-way.
constexpr time_t kSilenceSeconds = 1;
constexpr time_t kIoTimeoutSeconds = 2;
// Between two tries to get the port back after the listener failed.
constexpr absl::Duration kListenRetry = absl::Milliseconds(100);
constexpr size_t kMaxRequestBytes = 4096;

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kMetricsText = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

struct MetricsHttp::Impl {
  httplib::Server server;
  HostPort address;
  std::atomic<bool> stopping{false};
  std::atomic<bool> ended{false};  // the thread is done with `server`
  std::thread thread;

  void Listen();
  void Route(const ServerState* state, const MetricsExporter* exporter);
};

// The library leaves its loop, and closes the port, when accept() fails with
// almost anything. A daemon without probes is a daemon that gets killed.
void MetricsHttp::Impl::Listen() {
  while (!stopping) {
    server.listen_after_bind();
    if (stopping) break;
    Log(LogLevel::kWarning, "the metrics port has failed, listening again",
        {{"address", address.ToString()}});
    while (!stopping && !server.bind_to_port(address.host, address.port)) {
      absl::SleepFor(kListenRetry);
    }
  }
  ended = true;
}

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
  server.set_keep_alive_timeout(kSilenceSeconds);
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
  impl->thread = std::thread([impl = impl.get()] { impl->Listen(); });
  return std::unique_ptr<MetricsHttp>(new MetricsHttp(std::move(impl)));
}

MetricsHttp::MetricsHttp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MetricsHttp::~MetricsHttp() {
  impl_->stopping = true;
  // stop() is ignored before the loop has begun, and may be called once.
  while (!impl_->ended && !impl_->server.is_running()) {
    std::this_thread::yield();
  }
  impl_->server.stop();
  impl_->thread.join();
}

const HostPort& MetricsHttp::address() const { return impl_->address; }

std::string WhyNotReady(const ServerState& state) {
  if (const auto accepting = state.Accepting(); !accepting.ok()) {
    return std::string(accepting.status().message());
  }
  if (!state.healthy()) return "the engine is stalled or broken";
  if (state.leaving()) return "the server is about to drain";
  return state.ready_held() ? "the cache is being warmed" : "";
}

}  // namespace kvasir
