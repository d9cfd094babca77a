// What the cache costs per step and per request, apart from any model.

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"

#include "cache/base/check.h"
#include "cache/block_pool.h"
#include "cache/eviction_policy.h"
#include "cache/kv_cache.h"
#include "tests/bench/bench_cache.h"

namespace kvasir {
namespace {

constexpr int32_t kBlockTokens = kBenchBlockTokens;

// The policies as arguments of a benchmark, and the one that is its argument
// `index`; each run is labelled with it.
constexpr absl::string_view kPolicies[] = {"lru", kDefaultEvictionPolicy};

std::unique_ptr<EvictionPolicy> PolicyOf(benchmark::State& state, int index) {
  const absl::string_view name = kPolicies[state.range(index)];
  state.SetLabel(std::string(name));
  auto policy = EvictionPolicyByName(name);
  KV_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

std::vector<TokenId> Tokens(TokenId first, int64_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Lease Open(KvCache& cache, VersionId version,
           absl::Span<const TokenId> tokens) {
  auto lease = cache.OpenLease({.version = version, .tokens = tokens});
  KV_CHECK(lease.ok()) << lease.status();
  return *std::move(lease);
}

void Append(KvCache& cache, Lease& lease, absl::Span<const TokenId> tokens) {
  const LeaseGrowth growth{.lease = &lease, .tokens = tokens};
  cache.Reserve({&growth, 1}).Commit();
}

// One decode step of `rows` sequences: a token each, a block sealed now and
// then. Sequences that reach 2048 tokens begin anew, untimed.
void BM_DecodeStep(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const auto cache = MakeBenchCache(rows * 2048 / kBlockTokens);
  const VersionId version = cache->AddVersion("bench", "00");
  std::vector<Lease> leases(rows);
  std::vector<TokenId> next(rows);
  std::vector<LeaseGrowth> growths(rows);
  int64_t length = 2048;
  for (auto _ : state) {
    if (length == 2048) {
      state.PauseTiming();
      for (int64_t row = 0; row < rows; ++row) {
        leases[row] = Lease();
        leases[row] = Open(*cache, version, {});
        growths[row] = {.lease = &leases[row], .tokens = {&next[row], 1}};
      }
      cache->Flush();
      length = 0;
      state.ResumeTiming();
    }
    for (int64_t row = 0; row < rows; ++row) {
      next[row] = static_cast<TokenId>(row * 10'000 + length);
    }
    Reservation reservation = cache->Reserve(growths);
    benchmark::DoNotOptimize(reservation.Table(0).blocks.data());
    std::move(reservation).Commit();
    ++length;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_DecodeStep)->Arg(1)->Arg(32);

// A request whose prefix is cached: hashes and compares its blocks, pins them,
// and lets them go.
void BM_LookUpCachedPrefix(benchmark::State& state) {
  const int64_t prefix = state.range(0);
  const auto cache =
      MakeBenchCache(prefix / kBlockTokens + 1024, PolicyOf(state, 1));
  const VersionId version = cache->AddVersion("bench", "00");
  const auto tokens = Tokens(0, prefix + 1);
  {
    Lease lease = Open(*cache, version, tokens);
    Append(*cache, lease, tokens);
  }
  for (auto _ : state) {
    const Lease lease = Open(*cache, version, tokens);
    KV_CHECK(lease.cached_token_count() == prefix);
  }
  state.SetItemsProcessed(state.iterations() * prefix);
}
BENCHMARK(BM_LookUpCachedPrefix)
    ->ArgNames({"tokens", "policy"})
    ->ArgsProduct({{2048, 32768}, {0, 1}});

// A block granted and given back, which is all that a pool does for it.
void BM_GrantAndFreeBlock(benchmark::State& state) {
  BlockPool pool(kBlockTokens);
  pool.Grow(state.range(0));
  for (auto _ : state) {
    const BlockRef block = pool.Grant(VersionId(0));
    benchmark::DoNotOptimize(block.block());
  }
}
BENCHMARK(BM_GrantAndFreeBlock)->Arg(1 << 10)->Arg(1 << 20);

// What the engine copies for a scrape, with a million blocks cached.
void BM_SnapshotOfAMillionBlocks(benchmark::State& state) {
  constexpr int64_t kBlocks = int64_t{1} << 20;
  constexpr int64_t kPromptBlocks = 64;
  const auto cache = MakeBenchCache(kBlocks);
  const VersionId version = cache->AddVersion("bench", "00");
  for (TokenId first = 0; first < kBlocks / kPromptBlocks; ++first) {
    const auto tokens = Tokens(first * 100'000, kPromptBlocks * kBlockTokens);
    Lease lease = Open(*cache, version, tokens);
    Append(*cache, lease, tokens);
  }
  KV_CHECK(cache->Snapshot().tiers[0].blocks.cached == kBlocks);
  for (auto _ : state) benchmark::DoNotOptimize(cache->Snapshot());
}
BENCHMARK(BM_SnapshotOfAMillionBlocks)->Unit(benchmark::kMicrosecond);

// A full pool that gets prompts it has never seen: every block granted evicts
// one. Per item: one block through its whole life.
void BM_EvictionChurn(benchmark::State& state) {
  const int64_t blocks = state.range(0);
  const auto cache = MakeBenchCache(blocks, PolicyOf(state, 1));
  const VersionId version = cache->AddVersion("bench", "00");
  constexpr int64_t kPromptTokens = 16 * kBlockTokens;
  TokenId first = 0;
  const auto serve_one = [&] {
    const auto tokens = Tokens(first++, kPromptTokens);
    Lease lease = Open(*cache, version, tokens);
    Append(*cache, lease, tokens);
  };
  while (cache->Capacity().free_pieces >= 16) serve_one();
  for (auto _ : state) serve_one();
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(BM_EvictionChurn)
    ->ArgNames({"blocks", "policy"})
    ->ArgsProduct({{1 << 10, 1 << 16}, {0, 1}});

}  // namespace
}  // namespace kvasir
