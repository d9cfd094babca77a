#ifndef KVASIR_TESTS_BENCH_BENCH_CACHE_H_
#define KVASIR_TESTS_BENCH_BENCH_CACHE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "cache/base/check.h"
#include "cache/eviction_policy.h"
#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"

namespace kvasir {

constexpr int32_t kBenchBlockTokens = 16;

// A cache whose blocks are small, so that there can be a million of them.
inline std::unique_ptr<KvCache> MakeBenchCache(
    int64_t blocks, std::unique_ptr<EvictionPolicy> policy = MakeLruPolicy()) {
  KvCache::Options options;
  options.layout = {.layer_count = 1,
                    .kv_head_count = 1,
                    .head_dim = 64,
                    .block_tokens = kBenchBlockTokens,
                    .type = KvType::kF16};
  options.capacity_blocks = blocks;
  auto cache = KvCache::Create(options, MakeHostMemory(), std::move(policy));
  KV_CHECK(cache.ok()) << cache.status();
  return *std::move(cache);
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_BENCH_BENCH_CACHE_H_
