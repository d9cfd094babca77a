#ifndef KVASIR_SERVER_PROCESS_METRICS_H_
#define KVASIR_SERVER_PROCESS_METRICS_H_

#include "server/metric_families.h"

namespace kvasir {

// The process_* metrics that Prometheus clients share, and the memory limit.
// What the system does not tell is left out. Any thread.
void AddProcessMetrics(MetricFamilies& families);

}  // namespace kvasir

#endif  // KVASIR_SERVER_PROCESS_METRICS_H_
