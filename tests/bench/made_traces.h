#ifndef KVASIR_TESTS_BENCH_MADE_TRACES_H_
#define KVASIR_TESTS_BENCH_MADE_TRACES_H_

#include <cstdint>

#include "tests/bench/block_trace.h"

namespace kvasir::bench {

// A made-up trace of about that many references (at least 1). The seed decides
// its nature: one to three of
//
//   loops        the same documents in turn, that fit or do not
//   floods       one-off prompts
//   popularity   documents after Zipf's law, or all alike
//   turns        conversations that grow and end
//   stacks       returns to what was used a random, short way back
//   shared       prompts with a few heads in common
//   pairs        everything comes twice, far apart, then never
//
// at once or in phases that alternate, some of them with new documents each
// time; lengths are drawn in multiples of `capacity`, so that what pays in one
// phase is wrong in another. The same arguments give the same trace everywhere.
BlockTrace MakeTrace(uint32_t seed, int64_t capacity, int64_t references);

}  // namespace kvasir::bench

#endif  // KVASIR_TESTS_BENCH_MADE_TRACES_H_
