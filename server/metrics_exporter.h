#ifndef KVASIR_SERVER_METRICS_EXPORTER_H_
#define KVASIR_SERVER_METRICS_EXPORTER_H_

#include <string>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

#include "server/call_stats.h"
#include "server/memory_watch.h"
#include "server/metric_families.h"
#include "server/secrets.h"
#include "server/server_state.h"

namespace kvasir {

// Calls by method and code. `model_name` is empty while none is loaded.
void AddCallMetrics(const CallStats::Copy& calls, const std::string& model_name,
                    MetricFamilies& families);

// The metrics of API §8 that have a source today. A scrape reads the published
// copies and never waits for the engine. Series with fixed label values are
// there from the start, at zero; those that carry the model's name from the
// moment it is loaded.
//
// Any thread; what is pointed to outlives it.
class MetricsExporter final : public prometheus::Collectable {
 public:
  MetricsExporter(const ServerState* state, const CallStats* calls,
                  const MemoryWatch* memory, const Secrets* secrets = nullptr)
      : state_(state), calls_(calls), memory_(memory), secrets_(secrets) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

  // The same in Prometheus's text format.
  std::string Text() const;

 private:
  const ServerState* const state_;
  const CallStats* const calls_;
  const MemoryWatch* const memory_;
  const Secrets* const secrets_;  // may be null
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_METRICS_EXPORTER_H_
