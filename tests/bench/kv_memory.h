#ifndef KVASIR_TESTS_BENCH_KV_MEMORY_H_
#define KVASIR_TESTS_BENCH_KV_MEMORY_H_

#include <cstdint>
#include <vector>

#include "cache/kv_layout.h"

namespace kvasir::bench {

// A request of the mix: how many tokens it brings and how many it will generate
// before it ends, which no allocator knows beforehand.
struct RequestLength {
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

// Lengths as chat services see them: most short, a long tail, none above
// `max_tokens` for prompt or output. The same seed gives the same mix.
std::vector<RequestLength> MakeMix(uint64_t seed, int count,
                                   int64_t max_tokens);

// Where the token places of the KV memory were, on average over all steps in
// which requests waited; the shares sum to 1.
struct MemoryShares {
  double tokens = 0;       // hold a token: the utilization
  double internal = 0;     // kept for an output that will never come
  double reservation = 0;  // kept for tokens that are yet to come
  double external = 0;     // free, but of no use to the next request
  int64_t preemptions = 0;
  int64_t steps = 0;
};

// Runs the mix through a cache of `capacity_tokens` places, a token a step for
// every request that fits, as KvCache grants blocks: only when a token needs
// one, the youngest preempted when there is none.
MemoryShares SimulatePaged(const KvLayout& layout, int64_t capacity_tokens,
                           const std::vector<RequestLength>& mix);

// The same with one contiguous run of prompt + `max_tokens` places a request,
// first fit.
MemoryShares SimulateContiguous(int64_t capacity_tokens, int64_t max_tokens,
                                const std::vector<RequestLength>& mix);

// Lengths of `count` sequences, evenly from 1 to 2 * `mean` - 1 tokens.
std::vector<int64_t> SpreadLengths(int64_t mean, int64_t count);

// Internal fragmentation of sequences of these lengths that run at once: the
// share of the pinned blocks and pieces without a token, as KvCache accounts
// for them. They come with half of their tokens and grow side by side, a token
// a step, until each has its length.
double MeasureInternalFragmentation(const KvLayout& layout,
                                    const std::vector<int64_t>& lengths);

// The same if each had whole blocks only, by arithmetic.
double InternalFragmentationOfBlocks(const KvLayout& layout,
                                     const std::vector<int64_t>& lengths);

// Bytes of keys and values that KvCache accounts for `tokens` tokens of a
// request, divided by them.
double MeasureBytesPerToken(const KvLayout& layout, int64_t tokens);

}  // namespace kvasir::bench

#endif  // KVASIR_TESTS_BENCH_KV_MEMORY_H_
