// Speed of single kernels in the shapes of SmolLM2-135M: 9 query heads on 3 KV
// heads of 64 dimensions, hidden size 576, feed-forward size 1536.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/attention_cpu.h"
#include "engine/backend/cpu/elementwise_cpu.h"
#include "engine/backend/cpu/rope_cpu.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

constexpr int32_t kLayers = 30;
constexpr int32_t kQueryHeads = 9;
constexpr int32_t kKvHeads = 3;
constexpr int32_t kHeadDim = 64;
constexpr int64_t kHidden = 576;
constexpr int64_t kFeedForward = 1536;

std::vector<float> RandomNumbers(int64_t count) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// A cache of one sequence whose blocks lie in a row, as a fresh pool grants
// them, on huge pages where the system has them. If `scattered`, the last one
// is in pieces of as many blocks. All bytes are small numbers in f16 and f32.
struct Cache {
  Cache(KvType type, int64_t tokens, bool scattered = false)
      : layout{kLayers, kKvHeads, kHeadDim, 16, type},
        size((layout.BlocksFor(tokens) + layout.PiecesPerBlock()) *
             layout.BlockBytes()),
        bytes(static_cast<std::byte*>(std::aligned_alloc(
            kHugePage, (size + kHugePage - 1) / kHugePage * kHugePage))) {
    madvise(bytes, size, MADV_HUGEPAGE);
    std::memset(bytes, 0x30, size);
    const auto whole = static_cast<int32_t>(
        scattered ? tokens / layout.block_tokens : layout.BlocksFor(tokens));
    for (int32_t i = 0; i < whole; ++i) blocks.emplace_back(i);
    const auto pieces = static_cast<int32_t>(layout.PiecesFor(tokens) -
                                             whole * layout.PiecesPerBlock());
    for (int32_t i = 0; i < pieces; ++i) {
      tail.push_back({BlockId(whole + i), layout.PieceTokens()});
    }
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() { std::free(bytes); }

  BlockTableView Table() const {
    return {bytes, layout.BlockBytes(), blocks, tail};
  }

  static constexpr int64_t kHugePage = int64_t{2} << 20;

  const KvLayout layout;
  const int64_t size;
  std::byte* const bytes;
  std::vector<BlockId> blocks;
  std::vector<TailPiece> tail;
};

// The `index`-th fastest target of this machine, or the slowest.
SimdTarget Target(benchmark::State& state, int64_t index) {
  const std::vector<SimdTarget> targets = UsableSimdTargets();
  const size_t last = targets.size() - 1;
  const SimdTarget target = targets[std::min(static_cast<size_t>(index), last)];
  state.SetLabel(SimdTargetName(target));
  return target;
}

// Decode of one token in all layers. Arguments: tokens in the cache, threads,
// bytes of a number in the cache, target, whether the last block is in pieces.
void BM_AttentionDecode(benchmark::State& state) {
  const int64_t context = state.range(0);
  ThreadPool pool(static_cast<int32_t>(state.range(1)));
  Cache cache(state.range(2) == 2 ? KvType::kF16 : KvType::kF32, context,
              state.range(4) != 0);
  AttentionCpu attention(&pool, Target(state, state.range(3)));
  std::vector<float> query = RandomNumbers(kQueryHeads * kHeadDim);
  std::vector<float> out(query.size());
  const int64_t columns = static_cast<int64_t>(query.size());
  const SequenceRows rows = {0, 1, context - 1, cache.Table()};
  for (auto _ : state) {
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      attention.PagedAttention(cache.layout, layer, 0.125f, {&rows, 1},
                               {query.data(), 1, columns, columns},
                               {out.data(), 1, columns, columns});
    }
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * context *
                          cache.layout.TokenBytes());
}
BENCHMARK(BM_AttentionDecode)
    ->ArgNames({"context", "threads", "bytes", "target", "pieces"})
    ->Args({2048, 1, 2, 0, 0})
    ->Args({2048, 2, 2, 0, 0})
    ->Args({2048, 2, 4, 0, 0})
    ->Args({128, 1, 2, 0, 0})
    ->Args({2048, 1, 2, 1, 0})
    ->Args({128, 1, 2, 1, 0})
    ->Args({63, 1, 2, 0, 0})
    ->Args({63, 1, 2, 0, 1})
    ->Args({2047, 1, 2, 0, 0})
    ->Args({2047, 1, 2, 0, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Prefill of `rows` tokens of one layer behind `context` others. Reports
// multiply-adds that the causal mask leaves.
void BM_AttentionPrefill(benchmark::State& state) {
  const int64_t context = state.range(0);
  const int64_t row_count = state.range(1);
  ThreadPool pool(static_cast<int32_t>(state.range(2)));
  Cache cache(KvType::kF16, context + row_count);
  AttentionCpu attention(&pool, Target(state, state.range(3)));
  const int64_t columns = kQueryHeads * kHeadDim;
  std::vector<float> query = RandomNumbers(row_count * columns);
  std::vector<float> out(query.size());
  const SequenceRows rows = {0, row_count, context, cache.Table()};
  for (auto _ : state) {
    attention.PagedAttention(cache.layout, 0, 0.125f, {&rows, 1},
                             {query.data(), row_count, columns, columns},
                             {out.data(), row_count, columns, columns});
    benchmark::DoNotOptimize(out.data());
  }
  const int64_t tokens = row_count * context + row_count * (row_count + 1) / 2;
  state.counters["GFMA/s"] =
      benchmark::Counter(static_cast<double>(2 * tokens * columns) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_AttentionPrefill)
    ->ArgNames({"context", "rows", "threads", "target"})
    ->Args({0, 512, 1, 0})
    ->Args({0, 512, 2, 0})
    ->Args({1536, 64, 2, 0})
    ->Args({0, 512, 1, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

void BM_RmsNorm(benchmark::State& state) {
  ThreadPool pool(1);
  ElementwiseCpu elementwise(&pool, BestSimdTarget());
  const int64_t rows = state.range(0);
  std::vector<float> in = RandomNumbers(rows * kHidden);
  std::vector<float> out(in.size());
  const std::vector<float> gain(kHidden, 1.0f);
  for (auto _ : state) {
    elementwise.RmsNorm({in.data(), rows, kHidden, kHidden}, gain, 1e-5f,
                        {out.data(), rows, kHidden, kHidden});
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * rows * kHidden);
}
BENCHMARK(BM_RmsNorm)->ArgName("rows")->Arg(1)->Arg(64);

void BM_GatedActivation(benchmark::State& state) {
  ThreadPool pool(1);
  ElementwiseCpu elementwise(&pool, BestSimdTarget());
  const int64_t rows = state.range(0);
  std::vector<float> gate = RandomNumbers(rows * kFeedForward);
  std::vector<float> out(gate.size());
  const Activations in = {gate.data(), rows, kFeedForward, kFeedForward};
  for (auto _ : state) {
    elementwise.GatedActivation(GateFunction::kSilu, in, in,
                                {out.data(), rows, kFeedForward, kFeedForward});
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * rows * kFeedForward);
}
BENCHMARK(BM_GatedActivation)->ArgName("rows")->Arg(1)->Arg(64);

// Rotation and storing of `rows` tokens of one layer from position 0 on.
void BM_RopeAndStore(benchmark::State& state) {
  ThreadPool pool(1);
  const int64_t rows = state.range(0);
  Cache cache(KvType::kF16, rows);
  RopeCpu rope(&pool, BestSimdTarget());
  std::vector<float> frequencies(kHeadDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1.0f / static_cast<float>(1 + i);
  }
  const RopeSpec spec = {RopeSpec::Pairing::kAdjacent, kHeadDim, frequencies,
                         1.0f};
  std::vector<float> query = RandomNumbers(rows * kQueryHeads * kHeadDim);
  std::vector<float> key = RandomNumbers(rows * kKvHeads * kHeadDim);
  const Activations queries = {query.data(), rows, kQueryHeads * kHeadDim,
                               kQueryHeads * kHeadDim};
  const Activations keys = {key.data(), rows, kKvHeads * kHeadDim,
                            kKvHeads * kHeadDim};
  const SequenceRows sequence = {0, rows, 0, cache.Table()};
  for (auto _ : state) {
    rope.RopeAndStore(spec, cache.layout, 0, {&sequence, 1}, queries, keys,
                      keys);
    benchmark::DoNotOptimize(cache.bytes);
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_RopeAndStore)->ArgName("rows")->Arg(1)->Arg(64);

// What a fork-join costs when the threads are still spinning.
void BM_ForkJoin(benchmark::State& state) {
  ThreadPool pool(static_cast<int32_t>(state.range(0)));
  for (auto _ : state) pool.Run([](int32_t) {});
}
BENCHMARK(BM_ForkJoin)->ArgName("threads")->Arg(2)->UseRealTime();

}  // namespace
}  // namespace kvasir

BENCHMARK_MAIN();
