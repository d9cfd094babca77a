#include "server/metrics_exporter.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "prometheus/text_serializer.h"

#include "cache/base/clock.h"
#include "server/admin_log.h"
#include "server/engine_metrics.h"
#include "server/process_metrics.h"
#include "server/security_metrics.h"
#include "server/text.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

void AddServerMetrics(const ServerState& state, const ModelInfo* info,
                      MetricFamilies& out) {
  out.OpenGauge("kvasir_build_info", "This program; always 1.");
  out.Add({{"version", KVASIR_VERSION},
           {"revision", KVASIR_REVISION},
           {"simd", info == nullptr ? "unknown" : info->backend},
           {"cuda", "none"}},
          1);
  const bool serving = state.phase() == ServerPhase::kServing &&
                       state.healthy() && !state.ready_held();
  out.OpenGauge("kvasir_serving", "Whether a service is SERVING, 0 or 1.");
  for (const char* service : {"kvasir.v1.Inference", "kvasir.v1.CacheAdmin"}) {
    out.Add({{"service", service}}, serving ? 1 : 0);
  }
  out.Gauge("kvasir_draining", "Whether the server is draining, 0 or 1.",
            state.phase() == ServerPhase::kDraining || state.leaving() ? 1 : 0);
  AddReloadMetrics(state, out);
}

// A refusal is one, whether here or in the engine.
void AddRefusals(const CallStats::Refusals& refusals, EngineStats& stats) {
  stats.rejected_invalid += refusals.invalid;
  stats.rejected_never_fits += refusals.never_fits;
  stats.rejected_inbox_full += refusals.queue_full;
  stats.rejected_draining += refusals.draining;
}

}  // namespace

void AddCallMetrics(const CallStats::Copy& calls, const std::string& model_name,
                    MetricFamilies& families) {
  families.OpenCounter("grpc_server_calls_started_total",
                       "gRPC calls begun, by method.");
  for (const auto& [method, count] : calls.started) {
    families.Add({{"grpc_method", method}}, static_cast<double>(count));
  }
  families.OpenHistogram("grpc_server_call_duration_seconds",
                         "Time of gRPC calls, by method and status.");
  for (const auto& [key, histogram] : calls.durations) {
    families.Add(
        {{"grpc_method", key.first}, {"grpc_status", CodeName(key.second)}},
        histogram);
  }
  if (!model_name.empty()) {
    families.OpenCounter("kvasir_requests_total",
                         "Requests to generate, by how the call ended.");
    for (const auto& [code, count] : calls.generate_ends) {
      families.Add({{"model_name", model_name},
                    {"api", "grpc"},
                    {"code", CodeName(code)}},
                   static_cast<double>(count));
    }
  }
  families.OpenCounter("kvasir_limit_refusals_total",
                       "Calls refused for a limit of the server, by the option "
                       "that sets it.");
  for (const auto& [option, count] : calls.limit_refusals) {
    families.Add({{"limit", option}}, static_cast<double>(count));
  }
  families.Counter("kvasir_slow_readers_ended_total",
                   "Calls ended because their client did not read.",
                   static_cast<double>(calls.slow_readers));
  families.OpenCounter("kvasir_cache_admin_operations_total",
                       "Changes that operators asked of the cache.");
  for (const auto& [op, method] : AdminOperations()) {
    double done = 0;
    double failed = 0;
    for (const auto& [key, histogram] : calls.durations) {
      if (key.first != method) continue;
      double& count = key.second == grpc::StatusCode::OK ? done : failed;
      for (const uint64_t n : histogram.counts) count += static_cast<double>(n);
    }
    families.Add({{"op", op}, {"result", "ok"}}, done);
    families.Add({{"op", op}, {"result", "error"}}, failed);
  }
}

std::vector<prometheus::MetricFamily> MetricsExporter::Collect() const {
  MetricFamilies families;
  const GenerationBackend* backend = state_->backend();
  ServedModels models;
  if (backend != nullptr) {
    for (const auto& version : ActiveVersions(*backend)) {
      models.active.push_back(version->info());
    }
  }
  const ModelInfo* info =
      models.active.empty() ? nullptr : &models.active.front();
  AddServerMetrics(*state_, info, families);
  const CallStats::Copy calls = calls_->Read();
  AddCallMetrics(calls, NamesOf(models), families);
  if (info != nullptr) {
    EngineStats stats = backend->Stats();
    // Of the same moment as what the cache says of their blocks.
    models.versions = stats.versions;
    AddRefusals(calls.refusals, stats);
    AddEngineMetrics(models, stats, Clock::Steady().Now(), absl::Now(),
                     families);
  }
  if (secrets_ != nullptr) AddSecurityMetrics(secrets_->state(), families);
  AddProcessMetrics(families);
  const absl::StatusOr<MemoryState> memory = memory_->ReadState();
  if (memory.ok()) AddMemoryMetrics(*memory, memory_->resizes(), families);
  return families.Take();
}

std::string MetricsExporter::Text() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

}  // namespace kvasir
