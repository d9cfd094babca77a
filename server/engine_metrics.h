#ifndef KVASIR_SERVER_ENGINE_METRICS_H_
#define KVASIR_SERVER_ENGINE_METRICS_H_

#include "absl/time/time.h"

#include "engine/engine.h"
#include "engine/engine_stats.h"
#include "server/metric_families.h"

namespace kvasir {

// Everything of an engine that is worth a scrape, from copies. Pure: `now` is
// steady, `wall` the same moment by the calendar.
void AddEngineMetrics(const ModelInfo& info, const EngineStats& stats,
                      absl::Duration now, absl::Time wall,
                      MetricFamilies& families);

}  // namespace kvasir

#endif  // KVASIR_SERVER_ENGINE_METRICS_H_
