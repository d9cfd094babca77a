#ifndef KVASIR_SERVER_PROCESS_METRICS_H_
#define KVASIR_SERVER_PROCESS_METRICS_H_

#include "server/memory_limit.h"
#include "server/memory_watch.h"
#include "server/metric_families.h"

namespace kvasir {

// The process_* metrics that Prometheus clients share. What the system does not
// tell is left out. Any thread.
void AddProcessMetrics(MetricFamilies& families);

// The memory limits, the pressure, and how often the cache has answered them.
// Pure.
void AddMemoryMetrics(const MemoryState& memory,
                      const MemoryWatch::Counts& resizes,
                      MetricFamilies& families);

}  // namespace kvasir

#endif  // KVASIR_SERVER_PROCESS_METRICS_H_
