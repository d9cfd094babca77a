#ifndef KVASIR_ENGINE_CACHE_PROMISE_H_
#define KVASIR_ENGINE_CACHE_PROMISE_H_

#include <atomic>
#include <cstdint>

namespace kvasir {

// What requests may count on of the cache: token places of the size that it
// has, or is about to shrink to. Written by the engine thread, read by all;
// the two numbers may be of different moments.
struct CachePromise {
  CachePromise() = default;
  explicit CachePromise(int64_t places) : tokens(places) {}

  // For every request: without what pinned prefixes and floors keep.
  std::atomic<int64_t> tokens{0};
  // What pinned prefixes keep. A request that begins with one of them needs no
  // other room for it.
  std::atomic<int64_t> pinned_tokens{0};
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_CACHE_PROMISE_H_
