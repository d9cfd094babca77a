#include "server/security_metrics.h"

#include <utility>

namespace kvasir {

void AddSecurityMetrics(const Secrets::State& secrets,
                        MetricFamilies& families) {
  families.OpenCounter("kvasir_auth_failures_total",
                       "Calls refused for want of a token or a scope.");
  for (const auto& [reason, count] :
       {std::pair{"missing", secrets.failures.missing},
        std::pair{"malformed", secrets.failures.malformed},
        std::pair{"unknown", secrets.failures.unknown},
        std::pair{"scope", secrets.failures.scope}}) {
    families.Add({{"reason", reason}}, static_cast<double>(count));
  }
  families.OpenCounter(
      "kvasir_security_reloads_total",
      "Changed files of certificates or tokens that were taken over, or not.");
  for (const auto& [kind, reloads] : {std::pair{"certificates", secrets.tls},
                                      std::pair{"tokens", secrets.tokens}}) {
    families.Add({{"kind", kind}, {"result", "ok"}},
                 static_cast<double>(reloads.ok));
    families.Add({{"kind", kind}, {"result", "error"}},
                 static_cast<double>(reloads.failed));
  }
  if (!secrets.has_tls) return;
  families.OpenGauge("kvasir_tls_certificate_expiry_timestamp_seconds",
                     "When the first certificate in use expires, Unix time.");
  families.Add({{"role", "server"}},
               absl::ToDoubleSeconds(secrets.expiry - absl::UnixEpoch()));
  if (!secrets.has_client_ca) return;
  families.Add(
      {{"role", "client_ca"}},
      absl::ToDoubleSeconds(secrets.client_ca_expiry - absl::UnixEpoch()));
}

void AddReloadMetrics(const ServerState& state, MetricFamilies& families) {
  families.OpenCounter("kvasir_config_reloads_total",
                       "Reloads of the configuration, taken over or not.");
  families.Add({{"result", "ok"}}, static_cast<double>(state.reloads_ok()));
  families.Add({{"result", "error"}},
               static_cast<double>(state.reloads_failed()));
  families.Gauge("kvasir_config_last_reload_timestamp_seconds",
                 "When the configuration in force was read, Unix time.",
                 static_cast<double>(state.last_reload_unix_seconds()));
}

}  // namespace kvasir
