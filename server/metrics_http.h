#ifndef KVASIR_SERVER_METRICS_HTTP_H_
#define KVASIR_SERVER_METRICS_HTTP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "server/config_values.h"
#include "server/metrics_exporter.h"
#include "server/server_state.h"

namespace kvasir {

// The HTTP side for operators: GET /metrics in Prometheus's text format;
// /livez, 200 as long as the process answers; /readyz and /healthz, 200 if a
// token could be made now, else 503 with the reason in a line.
//
// Own threads, few: whoever is slow to read makes other scrapes wait, never the
// engine.
class MetricsHttp {
 public:
  // Listens when it returns. `state` and `exporter` outlive it.
  static absl::StatusOr<std::unique_ptr<MetricsHttp>> Start(
      const HostPort& listen, const ServerState* state,
      const MetricsExporter* exporter);

  // Waits for answers that are being sent.
  ~MetricsHttp();

  // With the port that was picked if 0 was asked for.
  const HostPort& address() const;

 private:
  struct Impl;
  explicit MetricsHttp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Why the server is not ready; empty if it is.
std::string WhyNotReady(const ServerState& state);

}  // namespace kvasir

#endif  // KVASIR_SERVER_METRICS_HTTP_H_
