// What a scrape costs beside a large cache: what the engine publishes and
// anybody copies, and the exporter's text of it.

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "cache/base/check.h"
#include "cache/kv_cache.h"
#include "server/metrics_exporter.h"
#include "tests/bench/bench_cache.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

constexpr int64_t kPromptBlocks = 64;
constexpr int kVersions = 16;
constexpr int kTenants = 64;
constexpr int kHotPrefixes = 100;

// Of a cache that is full of prompts of many tenants in many versions.
CacheSnapshot FullCache(int64_t blocks) {
  const std::unique_ptr<KvCache> cache = MakeBenchCache(blocks);
  std::vector<VersionId> versions;
  for (int i = 0; i < kVersions; ++i) {
    versions.push_back(cache->AddVersion(absl::StrCat("v", i), "00"));
  }
  for (int i = 0; i < kTenants; ++i) {
    KV_CHECK(
        cache->SetTenantQuota(absl::StrCat("t", i), {.floor_blocks = 1}).ok());
  }
  std::vector<TokenId> tokens(kPromptBlocks * kBenchBlockTokens);
  for (int64_t i = 0; i < blocks / kPromptBlocks; ++i) {
    std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(i * 100'000));
    const std::string salt = absl::StrCat("t", i % (2 * kTenants));
    auto lease = cache->OpenLease(
        {.version = versions[i % kVersions], .tokens = tokens, .salt = salt});
    KV_CHECK(lease.ok()) << lease.status();
    const LeaseGrowth growth{.lease = &*lease, .tokens = tokens};
    cache->Reserve({&growth, 1}).Commit();
  }
  return cache->Snapshot();
}

// As an engine has them that has served for a while.
const EngineStats& StatsOf(int64_t blocks) {
  static auto* const known = new std::map<int64_t, EngineStats>;
  const auto [it, fresh] = known->try_emplace(blocks);
  EngineStats& stats = it->second;
  if (!fresh) return stats;
  stats.cache = FullCache(blocks);
  stats.steps = 1000;
  for (Histogram* histogram :
       {&stats.ttft_hit, &stats.ttft_miss, &stats.inter_token,
        &stats.request_duration, &stats.step_decode_seconds}) {
    for (int i = 1; i < 1000; ++i) histogram->Add(0.001 * i);
  }
  for (int i = 0; i < kHotPrefixes; ++i) {
    stats.hot_prefixes.push_back({.version = VersionId(i % kVersions),
                                  .id = std::string(64, 'a'),
                                  .salt_hash = std::string(16, 'b'),
                                  .tokens = 1024,
                                  .hits = i});
  }
  return stats;
}

// The engine's half and the scraper's: publish a copy, read a copy.
void BM_PublishAndReadStats(benchmark::State& state) {
  const EngineStats& stats = StatsOf(state.range(0));
  StatsBoard board;
  for (auto _ : state) {
    board.Publish(stats);
    benchmark::DoNotOptimize(board.Read());
  }
}
BENCHMARK(BM_PublishAndReadStats)
    ->Arg(1 << 10)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond);

// A server whose clients have called every method.
class Scraped {
 public:
  explicit Scraped(const EngineStats& stats) {
    for (int i = 1; i < kVersions; ++i) {
      backend_.AddVersion(absl::StrCat("v", i), VersionState::kServing);
    }
    backend_.SetStats(stats);
    state_.Serve(&backend_);
    const CallStats::Copy calls = calls_.Read();
    for (const auto& [method, count] : calls.started) {
      for (const auto code :
           {grpc::StatusCode::OK, grpc::StatusCode::INVALID_ARGUMENT,
            grpc::StatusCode::UNAVAILABLE}) {
        CallMeter(&calls_, method).End(code);
      }
    }
  }
  const MetricsExporter& exporter() const { return exporter_; }

 private:
  FakeBackend backend_;
  ServerState state_;
  CallStats calls_;
  MemoryWatch memory_{CacheSizing()};
  MetricsExporter exporter_{&state_, &calls_, &memory_};
};

void BM_CollectMetrics(benchmark::State& state) {
  const Scraped scraped(StatsOf(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(scraped.exporter().Collect());
}
BENCHMARK(BM_CollectMetrics)->Arg(1 << 20)->Unit(benchmark::kMicrosecond);

// A whole scrape but for the socket.
void BM_MetricsText(benchmark::State& state) {
  const Scraped scraped(StatsOf(state.range(0)));
  size_t bytes = 0;
  for (auto _ : state) bytes = scraped.exporter().Text().size();
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_MetricsText)
    ->Arg(1 << 10)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvasir
