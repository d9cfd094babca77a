#include "cache/lookup_hash.h"

#include <cstddef>
#include <cstring>
#include <random>

#include "cache/base/check.h"

namespace kvasir {
namespace {

// The sum starts with one multiplier, and the hash before takes two.
constexpr size_t kBeforeTokens = 3;

}  // namespace

LookupHash::LookupHash(int32_t block_tokens) {
  std::random_device random;
  multipliers_.resize(kBeforeTokens + static_cast<size_t>(block_tokens));
  for (uint64_t& multiplier : multipliers_) {
    multiplier = uint64_t{random()} << 32 | random();
  }
}

uint64_t LookupHash::Start(const BlockKey& scope) {
  uint64_t start;
  std::memcpy(&start, scope.data(), sizeof(start));
  return start;
}

uint64_t LookupHash::Next(uint64_t before,
                          absl::Span<const TokenId> tokens) const {
  const uint64_t* multiplier = multipliers_.data();
  KV_DCHECK(tokens.size() + kBeforeTokens == multipliers_.size());
  uint64_t sum = multiplier[0] + multiplier[1] * (before >> 32) +
                 multiplier[2] * (before & 0xffffffff);
  multiplier += kBeforeTokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    sum += multiplier[i] * static_cast<uint32_t>(tokens[i]);
  }
  return sum;
}

}  // namespace kvasir
