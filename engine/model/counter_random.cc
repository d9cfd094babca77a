#include "engine/model/counter_random.h"

#include <algorithm>
#include <cstdint>

namespace kvasir {
namespace {

// One round of Philox4x32, with the constants of the paper's table 2 and
// section 3.2.
struct PhiloxState {
  uint32_t counter[4];
  uint32_t key[2];

  void Round() {
    constexpr uint64_t kMultiplier0 = 0xD2511F53;
    constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
    const uint64_t a = kMultiplier0 * counter[0];
    const uint64_t b = kMultiplier1 * counter[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
        static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
        static_cast<uint32_t>(a)};
    std::copy(next, next + 4, counter);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
};

}  // namespace

uint64_t CounterRandom(uint64_t seed, uint64_t position, uint64_t draw) {
  constexpr int kRounds = 10;
  PhiloxState state = {
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
       static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  for (int i = 0; i < kRounds; ++i) state.Round();
  return state.counter[0] | uint64_t{state.counter[1]} << 32;
}

}  // namespace kvasir
