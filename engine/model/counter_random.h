#ifndef KVASIR_ENGINE_MODEL_COUNTER_RANDOM_H_
#define KVASIR_ENGINE_MODEL_COUNTER_RANDOM_H_

#include <cstdint>

namespace kvasir {

// 64 random bits for (seed, position, draw): a counter-based generator
// (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). It has no state, so that neither batch nor preemption changes what
// a position draws (contract C2). Any thread.
uint64_t CounterRandom(uint64_t seed, uint64_t position, uint64_t draw);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_COUNTER_RANDOM_H_
