#ifndef KVASIR_ENGINE_CACHE_RESIZE_H_
#define KVASIR_ENGINE_CACHE_RESIZE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"

namespace kvasir {

// What a shrink does about running requests that hold more than will be left.
// None of them fails: what is preempted goes on later.
enum class ResizeStrategy : uint8_t {
  kWait,     // nothing changes until what they hold fits; new ones wait
  kEvict,    // cached content goes at once, they keep what they need
  kPreempt,  // the youngest give way until the others fit
};

// How far a resize is, or what one would do. Plain value.
struct ResizeReport {
  int64_t target_blocks = 0;
  int64_t block_count = 0;  // that have memory now
  int64_t block_bytes = 0;
  bool waits = false;            // until requests end
  int64_t waiting_blocks = 0;    // that they hold, and too many
  int64_t evicted_blocks = 0;    // so far
  int64_t relocated_blocks = 0;  // so far
  int64_t preempted_count = 0;   // so far
};

// Where a resize tells how far it is. Implemented by the server; shared by
// engine and caller, whoever lets go last destroys it.
class ResizeSink {
 public:
  virtual ~ResizeSink() = default;

  // Engine thread, after each slice; must not block. False calls the resize
  // off: the pool stays as large as it is.
  virtual bool OnProgress(const ResizeReport& report) = 0;

  // Engine thread, once, last. OK: the size is reached, or it was a dry run.
  // FAILED_PRECONDITION: another resize is under way, the size is not what the
  // order is for, or it was for all or nothing. OUT_OF_RANGE: more than can be
  // mapped. RESOURCE_EXHAUSTED: the system has not got the memory. CANCELLED:
  // called off. UNAVAILABLE: the engine has ended.
  virtual void OnEnd(const absl::Status& status,
                     const ResizeReport& report) = 0;
};

// What somebody wants of the cache's size.
struct ResizeOrder {
  int64_t target_blocks = 0;
  ResizeStrategy strategy = ResizeStrategy::kEvict;
  bool dry_run = false;
  std::shared_ptr<ResizeSink> sink;
  // Set by what resizes on its own account: the order is for a cache of this
  // size and void (FAILED_PRECONDITION) for another, and while it goes on, an
  // order without this takes its place.
  std::optional<int64_t> from_blocks = {};
  // FAILED_PRECONDITION, with nothing evicted, if what runs when it is taken on
  // keeps the cache from getting there.
  bool all_or_nothing = false;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_CACHE_RESIZE_H_
