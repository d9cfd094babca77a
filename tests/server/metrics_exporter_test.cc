#include "server/metrics_exporter.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

#include "server/engine_metrics.h"
#include "tests/server/fake_system.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

EngineStats SomeStats() {
  EngineStats stats;
  stats.requests_running = 2;
  stats.requests_waiting = 3;
  stats.finished = {5, 6, 7, 8};
  stats.cancelled_by_drain = 4;
  stats.rejected_inbox_full = 9;
  stats.preemptions = 1;
  stats.prompt_tokens_computed = 100;
  stats.prompt_tokens_cached = 60;
  stats.generation_tokens = 50;
  stats.steps = 10;
  stats.last_step = absl::Seconds(40);
  stats.ttft_hit.Add(0.02);
  stats.ttft_hit.Add(0.3);
  TierSnapshot tier;
  tier.tier = "device";
  tier.block_bytes = 100;
  tier.capacity_bytes = 1000;
  tier.blocks = {
      .free = 4, .reserved = 1, .pinned = 2, .cached = 3, .leaving = 0};
  tier.bytes = {.free = 400,
                .reserved = 100,
                .tokens = 450,
                .fragmentation = 50,
                .leaving = 0};
  stats.cache.tiers = {tier};
  stats.cache.block_tokens = 16;
  VersionSnapshot version;
  version.id = VersionId(0);
  version.state = "serving";
  version.lease_count = 2;
  version.hit_tokens = 60;
  version.blocks = {
      .free = 0, .reserved = 1, .pinned = 2, .cached = 3, .leaving = 0};
  stats.cache.versions = {version};
  stats.cache.counters.lookup_tokens = 160;
  stats.cache.counters.hit_tokens = 60;
  stats.cache.counters.evicted[EvictionCause::kVersion] = 7;
  stats.cache.counters.evicted[EvictionCause::kTtl] = 8;
  stats.cache.counters.evicted[EvictionCause::kQuota] = 9;
  stats.cache.counters.evicted[EvictionCause::kNamed] = 10;
  stats.cache.pinned_blocks = 11;
  stats.cache.pinned_prefixes = 2;
  stats.cache.kept_blocks = 23;
  return stats;
}

class MetricsExporterTest : public testing::Test {
 protected:
  MetricsExporterTest()
      : memory_({.system_root = system_.root()}),
        exporter_(&state_, &calls_, &memory_) {
    backend_.SetStats(SomeStats());
  }

  // Samples by name with labels, as in the text.
  std::map<std::string, double> Scrape() {
    std::map<std::string, double> samples;
    for (const absl::string_view line :
         absl::StrSplit(exporter_.Text(), '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      const size_t blank = line.rfind(' ');
      EXPECT_TRUE(samples
                      .emplace(std::string(line.substr(0, blank)),
                               std::strtod(line.data() + blank, nullptr))
                      .second)
          << "twice: " << line;
    }
    return samples;
  }

  FakeBackend backend_;
  ServerState state_;
  CallStats calls_;
  FakeSystem system_;
  MemoryWatch memory_;
  MetricsExporter exporter_;
};

TEST_F(MetricsExporterTest, NamesLabelsAndValues) {
  state_.Serve(&backend_);
  state_.SetHealthy(true);
  const auto s = Scrape();
  const auto at = [&s](const std::string& key) {
    const auto it = s.find(key);
    EXPECT_NE(it, s.end()) << key;
    return it == s.end() ? -1 : it->second;
  };
  const std::string m = "{model_name=\"tiny\"";
  EXPECT_EQ(at("kvasir_requests_running" + m + "}"), 2);
  EXPECT_EQ(at("kvasir_requests_waiting" + m + "}"), 3);
  EXPECT_EQ(at("kvasir_requests_finished_total" + m +
               ",finish_reason=\"context_full\"}"),
            8);
  EXPECT_EQ(at("kvasir_requests_cancelled_total" + m + ",source=\"drain\"}"),
            4);
  EXPECT_EQ(
      at("kvasir_requests_rejected_total" + m + ",reason=\"queue_full\"}"), 9);
  EXPECT_EQ(at("kvasir_requests_preempted_total" + m + ",mode=\"recompute\"}"),
            1);
  EXPECT_EQ(at("kvasir_prompt_tokens_total" + m + ",source=\"computed\"}"),
            100);
  EXPECT_EQ(at("kvasir_prompt_tokens_total" + m + ",source=\"device\"}"), 60);
  EXPECT_EQ(at("kvasir_kv_cache_usage_ratio" + m + ",tier=\"device\"}"), 0.3);
  EXPECT_EQ(
      at("kvasir_kv_cache_blocks" + m + ",tier=\"device\",state=\"cached\"}"),
      3);
  EXPECT_EQ(at("kvasir_kv_cache_used_bytes" + m + ",tier=\"device\"}"), 600);
  EXPECT_EQ(at("kvasir_kv_cache_fragmentation_ratio" + m + ",tier=\"device\"}"),
            0.1);
  EXPECT_EQ(at("kvasir_cache_versions" + m + ",state=\"serving\"}"), 1);
  EXPECT_EQ(at("kvasir_cache_versions" + m + ",state=\"retiring\"}"), 0);
  EXPECT_EQ(at("kvasir_serving{service=\"kvasir.v1.Inference\"}"), 1);
  EXPECT_EQ(at("kvasir_draining"), 0);
  const std::string ttft = "kvasir_time_to_first_token_seconds_";
  EXPECT_EQ(at(ttft + "count" + m + ",cache=\"hit\"}"), 2);
  EXPECT_EQ(at(ttft + "bucket" + m + ",cache=\"hit\",le=\"0.02\"}"), 1)
      << "a bound belongs to its bucket";
  EXPECT_EQ(at(ttft + "bucket" + m + ",cache=\"hit\",le=\"+Inf\"}"), 2);
  EXPECT_EQ(at(ttft + "count" + m + ",cache=\"miss\"}"), 0);
  EXPECT_GT(at("process_resident_memory_bytes"), 0);
  EXPECT_GT(at("process_open_fds"), 2);
  EXPECT_GT(at("process_start_time_seconds"), 1.6e9);
}

// Whoever asks where the room has gone finds who keeps it, without a tenant's
// name.
TEST_F(MetricsExporterTest, WhatIsKeptAndDroppedOnPurpose) {
  state_.Serve(&backend_);
  const auto s = Scrape();
  const std::string m = "{model_name=\"tiny\"";
  const auto evicted = [&](const std::string& reason) {
    return s.at("kvasir_kv_evicted_blocks_total" + m +
                ",tier=\"device\",reason=\"" + reason + "\"}");
  };
  EXPECT_EQ(evicted("ttl"), 8);
  EXPECT_EQ(evicted("quota"), 9);
  EXPECT_EQ(evicted("named"), 10);
  EXPECT_EQ(s.at("kvasir_kv_pinned_prefixes" + m + "}"), 2);
  EXPECT_EQ(s.at("kvasir_kv_kept_blocks" + m + ",by=\"pin\"}"), 11);
  EXPECT_EQ(s.at("kvasir_kv_kept_blocks" + m + ",by=\"floor\"}"), 12);
}

// An operator who changes over looks at both versions at a time, and at the
// states that are, not at those that the last step knew.
TEST_F(MetricsExporterTest, VersionsAreToldByLabelAndState) {
  backend_.AddVersion("green", VersionState::kServing);
  backend_.AddVersion("grey", VersionState::kDraining);
  state_.Serve(&backend_);
  const auto s = Scrape();
  const std::string m = "{model_name=\"tiny\"";
  const std::string first = m + ",version=\"tiny@12345678\"";
  EXPECT_EQ(s.at("kvasir_cache_versions" + m + ",state=\"serving\"}"), 2);
  EXPECT_EQ(s.at("kvasir_cache_versions" + m + ",state=\"draining\"}"), 1);
  EXPECT_EQ(s.at("kvasir_cache_versions" + m + ",state=\"warming\"}"), 0);
  EXPECT_EQ(s.at("kvasir_cache_version_active" + first + "}"), 1);
  EXPECT_EQ(s.at("kvasir_cache_version_active" + m + ",version=\"green\"}"), 0);
  EXPECT_EQ(s.at("kvasir_cache_version_leases" + first + "}"), 2);
  EXPECT_EQ(s.at("kvasir_cache_version_hit_tokens_total" + first + "}"), 60);
  EXPECT_EQ(s.at("kvasir_cache_version_blocks" + first + ",state=\"cached\"}"),
            3);
  EXPECT_EQ(s.at("kvasir_cache_version_blocks" + m +
                 ",version=\"grey\",state=\"cached\"}"),
            0);
  EXPECT_EQ(s.at("kvasir_kv_evicted_blocks_total" + m +
                 ",tier=\"device\",reason=\"version\"}"),
            7);
}

// Labels of versions that are gone would pile up with every roll-out; what they
// have come to stays in the totals.
TEST_F(MetricsExporterTest, ARetiredVersionTakesItsSeriesAndNoTotal) {
  const auto text = [&](const EngineStats& stats) {
    MetricFamilies families;
    AddEngineMetrics({{backend_.info()}, backend_.Versions()}, stats,
                     absl::Seconds(45), absl::FromUnixSeconds(1000), families);
    return prometheus::TextSerializer().Serialize(families.Take());
  };
  const std::string total =
      "kvasir_prefix_cache_hit_tokens_total{model_name=\"tiny\","
      "tier=\"device\"} 60\n";
  EngineStats stats = SomeStats();
  VersionSnapshot gone = stats.cache.versions[0];
  gone.id = VersionId(7);
  gone.label = "gone";
  gone.state = "retired";
  gone.hit_tokens = 20;
  stats.cache.versions.push_back(gone);
  stats.cache.versions[0].hit_tokens = 40;
  EXPECT_THAT(text(stats), HasSubstr(total));
  EXPECT_THAT(text(stats), testing::Not(HasSubstr("version=\"gone\"")));
  stats.cache.versions.pop_back();
  stats.cache.forgotten.hit_tokens = 20;
  EXPECT_THAT(text(stats), HasSubstr(total));
}

// C3: the identity holds in every scrape.
TEST_F(MetricsExporterTest, StatesAndBytesAddUp) {
  state_.Serve(&backend_);
  double blocks = 0;
  double bytes = 0;
  double capacity = -1;
  for (const auto& [name, value] : Scrape()) {
    if (absl::StartsWith(name, "kvasir_kv_cache_blocks{")) blocks += value;
    if (absl::StartsWith(name, "kvasir_kv_cache_bytes{")) bytes += value;
    if (absl::StartsWith(name, "kvasir_kv_cache_capacity_bytes{")) {
      capacity = value;
    }
  }
  EXPECT_EQ(blocks, 10);
  EXPECT_EQ(bytes, capacity);
}

// A rate over a series that appears with its first event misses that event.
TEST_F(MetricsExporterTest, SeriesAreThereBeforeTheFirstEvent) {
  backend_.SetStats({});
  state_.Serve(&backend_);
  const auto s = Scrape();
  for (const char* code : {"OK", "UNAVAILABLE", "CANCELLED"}) {
    EXPECT_EQ(s.at(absl::StrCat("kvasir_requests_total{model_name=\"tiny\","
                                "api=\"grpc\",code=\"",
                                code, "\"}")),
              0);
  }
  EXPECT_EQ(s.at("grpc_server_calls_started_total{grpc_method=\"kvasir.v1."
                 "CacheAdmin/RollbackCacheVersion\"}"),
            0);
  EXPECT_EQ(s.at("kvasir_cache_admin_operations_total{op=\"flush\","
                 "result=\"ok\"}"),
            0);
  EXPECT_EQ(s.at("kvasir_last_step_timestamp_seconds{model_name=\"tiny\"}"), 0);
}

TEST_F(MetricsExporterTest, CallsAreCountedByMethodAndCode) {
  CallMeter generate(&calls_, "kvasir.v1.Inference/Generate");
  CallMeter flush(&calls_, "kvasir.v1.CacheAdmin/FlushCache");
  CallMeter resize(&calls_, "kvasir.v1.CacheAdmin/ResizeCache");
  EXPECT_FALSE(calls_.WaitGenerateIdle(absl::ZeroDuration()));
  generate.End(grpc::StatusCode::NOT_FOUND);
  flush.End(grpc::StatusCode::OK);
  resize.End(grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(calls_.WaitGenerateIdle(absl::ZeroDuration()));
  state_.Serve(&backend_);
  const auto s = Scrape();
  EXPECT_EQ(s.at("kvasir_requests_total{model_name=\"tiny\",api=\"grpc\","
                 "code=\"NOT_FOUND\"}"),
            1);
  EXPECT_EQ(s.at("grpc_server_call_duration_seconds_count{grpc_method="
                 "\"kvasir.v1.Inference/Generate\",grpc_status="
                 "\"NOT_FOUND\"}"),
            1);
  EXPECT_EQ(s.at("kvasir_cache_admin_operations_total{op=\"flush\","
                 "result=\"ok\"}"),
            1);
  EXPECT_EQ(s.at("kvasir_cache_admin_operations_total{op=\"resize\","
                 "result=\"error\"}"),
            1);
}

TEST_F(MetricsExporterTest, MemoryLimitsBySourceAndPressure) {
  EXPECT_EQ(Scrape().at("kvasir_memory_limit_bytes{source=\"host\"}"),
            24.0 * kGibi);
  EXPECT_EQ(Scrape().count("kvasir_memory_pressure_ratio"), 0u)
      << "a kernel without PSI has no ratio, not the ratio 0";
  system_.SetGroup("536870912", 0);
  system_.SetPressure("12.50", "1.00");
  const auto s = Scrape();
  EXPECT_EQ(s.at("kvasir_memory_limit_bytes{source=\"cgroup\"}"),
            512.0 * kMebi);
  EXPECT_EQ(s.at("kvasir_memory_limit_bytes{source=\"host\"}"), 24.0 * kGibi);
  EXPECT_EQ(s.at("kvasir_memory_pressure_ratio"), 0.125);
  for (const char* reason : {"limit", "pressure", "room"}) {
    EXPECT_EQ(s.at(absl::StrCat("kvasir_cache_auto_resizes_total{reason=\"",
                                reason, "\"}")),
              0);
  }
}

// While the model loads there is no model to name; the rest is there.
TEST_F(MetricsExporterTest, WorksWithoutAModel) {
  const std::string text = exporter_.Text();
  EXPECT_THAT(text, HasSubstr("kvasir_build_info"));
  EXPECT_THAT(text, HasSubstr("kvasir_serving"));
  EXPECT_THAT(text, testing::Not(HasSubstr("model_name")));
}

// The last step's time is steady; the exporter tells it by the calendar.
TEST_F(MetricsExporterTest, LastStepByTheCalendar) {
  MetricFamilies families;
  AddEngineMetrics({{backend_.info()}, {}}, SomeStats(), absl::Seconds(45),
                   absl::FromUnixSeconds(1000), families);
  const std::string text =
      prometheus::TextSerializer().Serialize(families.Take());
  EXPECT_THAT(text, HasSubstr("kvasir_last_step_timestamp_seconds{model_name="
                              "\"tiny\"} 995"));
}

// Prometheus's own linter knows the naming rules better than we do.
TEST_F(MetricsExporterTest, PromtoolFindsNothing) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  state_.Serve(&backend_);
  CallMeter(&calls_, "kvasir.v1.Inference/Generate").End(grpc::StatusCode::OK);
  const std::string file = WriteTestFile("metrics.txt", exporter_.Text());
  EXPECT_EQ(std::system(("promtool check metrics <" + file).c_str()), 0);
}

// "aim below ten series per metric, rethink at a hundred": histograms apart.
TEST_F(MetricsExporterTest, CardinalityIsBounded) {
  state_.Serve(&backend_);
  for (const prometheus::MetricFamily& family : exporter_.Collect()) {
    EXPECT_LE(family.metric.size(), 40u) << family.name;
    for (const prometheus::ClientMetric& sample : family.metric) {
      std::set<std::string> names;
      for (const auto& label : sample.label) {
        EXPECT_TRUE(names.insert(label.name).second) << family.name;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
