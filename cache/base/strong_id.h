#ifndef KVASIR_CACHE_BASE_STRONG_ID_H_
#define KVASIR_CACHE_BASE_STRONG_ID_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace kvasir {

// An integer that does not mix with integers of another meaning. Plain value,
// any thread. A default-constructed id is invalid (-1).
template <typename Tag, typename Int = int32_t>
class StrongId {
 public:
  using Value = Int;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}

  constexpr Int value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

  template <typename H>
  friend H AbslHashValue(H state, StrongId id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongId id) {
    return out << id.value_;
  }

 private:
  Int value_ = -1;
};

using BlockId = StrongId<struct BlockIdTag>;
using VersionId = StrongId<struct VersionIdTag>;
using SequenceId = StrongId<struct SequenceIdTag, int64_t>;

// A token's number in its model's vocabulary. On the wire it is a uint32; ids
// are checked against the model before they become a TokenId.
using TokenId = int32_t;

}  // namespace kvasir

#endif  // KVASIR_CACHE_BASE_STRONG_ID_H_
