#ifndef KVASIR_SERVER_ENGINE_METRICS_H_
#define KVASIR_SERVER_ENGINE_METRICS_H_

#include <vector>

#include "absl/time/time.h"

#include "engine/engine.h"
#include "engine/engine_stats.h"
#include "server/metric_families.h"

namespace kvasir {

// What an engine serves. Plain values.
struct ServedModels {
  std::vector<ModelInfo> active;      // of each model the active version; never
                                      // empty
  std::vector<VersionInfo> versions;  // all that are resident
};

// With commas between them, the first one first; empty if there are none.
std::string NamesOf(const ServedModels& models);

// Everything of an engine that is worth a scrape, from copies. What is the
// engine's as a whole carries the names of all models. Pure: `now` is steady,
// `wall` the same moment by the calendar.
void AddEngineMetrics(const ServedModels& models, const EngineStats& stats,
                      absl::Duration now, absl::Time wall,
                      MetricFamilies& families);

}  // namespace kvasir

#endif  // KVASIR_SERVER_ENGINE_METRICS_H_
