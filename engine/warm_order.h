#ifndef KVASIR_ENGINE_WARM_ORDER_H_
#define KVASIR_ENGINE_WARM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/retention.h"

namespace kvasir {

class ServedVersion;

// Bounds of a WarmOrder, and of the orders that wait for each other.
inline constexpr size_t kMaxWarmPrefixes = 4096;
inline constexpr int32_t kMaxWarmParallelism = 64;
inline constexpr size_t kMaxWarmOrders = 8;
// Of all prefixes of an order together: 16 MiB of ids.
inline constexpr int64_t kMaxWarmTokens = int64_t{1} << 22;

// Of prefixes of which nothing else is said: whoever warms them wants them to
// outlast what requests leave behind.
inline constexpr int32_t kWarmedPriority = 75;

// Tokens that prompts are expected to begin with.
struct WarmPrefix {
  // Only whole blocks can be kept; what is beyond the last one is left out.
  std::vector<TokenId> tokens;
  std::string salt = {};
  // What its blocks are kept by. Unset: what they are kept by stays.
  std::optional<Retention> retention = Retention{.priority = kWarmedPriority};
  // Kept from eviction once it is resident, for the retention's ttl.
  bool pin = false;
};

// What became of one prefix. Plain value.
struct WarmedPrefix {
  int64_t token_count = 0;  // in its whole blocks
  // Of these, in the device tier, looked up anew when the order ended.
  int64_t resident_tokens = 0;
  int64_t computed_tokens = 0;  // for it, again and again if need be
  // OK: all are resident. INVALID_ARGUMENT: no prompt of this version can begin
  // so. RESOURCE_EXHAUSTED: the cache is too small for it, or for its pin, or
  // has lost it again. INTERNAL: a step failed. Or why the order was called off
  // before it was its turn.
  absl::Status status;
};

// How far an order is. Plain value.
struct WarmReport {
  int64_t prefix_count = 0;
  int64_t done_count = 0;       // prefixes with nothing left to compute
  int64_t computed_tokens = 0;  // so far
};

// Where a warm-up tells how far it is. Implemented by the server; shared by
// engine and caller, whoever lets go last destroys it.
class WarmSink {
 public:
  virtual ~WarmSink() = default;

  // Engine thread, at every turn while it is the order's; must not block. False
  // calls it off: what is computed stays.
  virtual bool OnProgress(const WarmReport& report) = 0;

  // Engine thread, once, last; one entry per prefix. OK: every one of them is
  // fully resident. Otherwise what is wrong with the first that is not, or
  // RESOURCE_EXHAUSTED: too many orders wait. CANCELLED: called off.
  // FAILED_PRECONDITION: the version has been deleted. UNAVAILABLE: the engine
  // drains or has ended, and the cache goes with it.
  virtual void OnEnd(const absl::Status& status,
                     absl::Span<const WarmedPrefix> prefixes) = 0;
};

// What somebody wants to be in the cache before requests ask for it.
struct WarmOrder {
  std::shared_ptr<const ServedVersion> version;  // held until the order ends
  std::vector<WarmPrefix> prefixes;
  // Prefixes in hand at a time. A step computes at most one prefill chunk of
  // all of them together.
  int32_t parallelism = 1;
  std::shared_ptr<WarmSink> sink;
};

// INVALID_ARGUMENT above kMaxWarmTokens: for who counts before there is a whole
// order.
absl::Status CheckWarmTokens(int64_t count);

// INVALID_ARGUMENT for an order that is out of bounds.
absl::Status CheckWarmOrder(const WarmOrder& order);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_WARM_ORDER_H_
