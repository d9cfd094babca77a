#include "engine/model/token_set.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "cache/base/check.h"

namespace kvasir {

TokenSet::TokenSet(int32_t bound) : bound_(bound) {
  KV_CHECK(bound >= 0) << bound;
  const auto bits = static_cast<uint32_t>(bound);
  words_.assign((bits + kWordBits - 1) / kWordBits, ~uint64_t{0});
  if (bits % kWordBits != 0) {
    words_.back() = (uint64_t{1} << bits % kWordBits) - 1;
  }
}

TokenSet TokenSet::None(int32_t bound) {
  TokenSet set(bound);
  std::fill(set.words_.begin(), set.words_.end(), 0);
  return set;
}

void TokenSet::Add(TokenId id) {
  KV_CHECK(id >= 0 && id < bound_) << id << " of " << bound_;
  const auto bit = static_cast<uint32_t>(id);
  words_[bit / kWordBits] |= uint64_t{1} << bit % kWordBits;
}

void TokenSet::Remove(TokenId id) {
  KV_CHECK(id >= 0 && id < bound_) << id << " of " << bound_;
  const auto bit = static_cast<uint32_t>(id);
  words_[bit / kWordBits] &= ~(uint64_t{1} << bit % kWordBits);
}

bool TokenSet::empty() const {
  return std::all_of(words_.begin(), words_.end(),
                     [](uint64_t word) { return word == 0; });
}

void TokenSet::AppendTo(int32_t limit, std::vector<TokenId>& ids) const {
  // A step of a decode draws from the whole vocabulary, nearly all of which is
  // in the set: whole words are written without a look at their bits.
  const auto end = static_cast<uint32_t>(std::min(limit, bound_));
  size_t count = ids.size();
  ids.resize(count + end);
  for (uint32_t first = 0; first < end; first += kWordBits) {
    uint64_t word = words_[first / kWordBits];
    if (word == ~uint64_t{0} && first + kWordBits <= end) {
      for (uint32_t bit = 0; bit < kWordBits; ++bit) {
        ids[count + bit] = static_cast<TokenId>(first + bit);
      }
      count += kWordBits;
      continue;
    }
    for (; word != 0; word &= word - 1) {
      const uint32_t id = first + static_cast<uint32_t>(std::countr_zero(word));
      if (id >= end) break;
      ids[count++] = static_cast<TokenId>(id);
    }
  }
  ids.resize(count);
}

}  // namespace kvasir
