#ifndef KVASIR_ENGINE_MODEL_TOKEN_SET_H_
#define KVASIR_ENGINE_MODEL_TOKEN_SET_H_

#include <cstdint>
#include <vector>

#include "cache/base/strong_id.h"

namespace kvasir {

// A set of token ids below a bound, as a bitmap. Any thread once it is filled.
class TokenSet {
 public:
  TokenSet() = default;
  // All of [0, bound).
  explicit TokenSet(int32_t bound);

  // None of them.
  static TokenSet None(int32_t bound);

  void Add(TokenId id);     // in [0, bound())
  void Remove(TokenId id);  // in [0, bound())

  bool Contains(TokenId id) const {
    return id >= 0 && id < bound_ &&
           (words_[static_cast<uint32_t>(id) / kWordBits] >>
                (static_cast<uint32_t>(id) % kWordBits) &
            1) != 0;
  }
  int32_t bound() const { return bound_; }
  bool empty() const;

  // Appends the ids below `limit` in rising order.
  void AppendTo(int32_t limit, std::vector<TokenId>& ids) const;

 private:
  static constexpr uint32_t kWordBits = 64;

  int32_t bound_ = 0;
  std::vector<uint64_t> words_;  // bits from `bound_` on are 0
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_TOKEN_SET_H_
