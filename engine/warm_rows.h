#ifndef KVASIR_ENGINE_WARM_ROWS_H_
#define KVASIR_ENGINE_WARM_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class Lease;

// The rows of one prefix in a step. The lease is the warm-up's.
struct WarmRows {
  Lease* lease = nullptr;
  absl::Span<const TokenId> tokens;
  int64_t first_position = 0;
  size_t prefix = 0;  // of the order
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_WARM_ROWS_H_
