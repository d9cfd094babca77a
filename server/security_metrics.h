#ifndef KVASIR_SERVER_SECURITY_METRICS_H_
#define KVASIR_SERVER_SECURITY_METRICS_H_

#include "server/metric_families.h"
#include "server/secrets.h"
#include "server/server_state.h"

namespace kvasir {

// What the exporter tells of who may call and of the files that say so.
void AddSecurityMetrics(const Secrets::State& secrets,
                        MetricFamilies& families);

// Of the configuration that is read again while the server runs.
void AddReloadMetrics(const ServerState& state, MetricFamilies& families);

}  // namespace kvasir

#endif  // KVASIR_SERVER_SECURITY_METRICS_H_
