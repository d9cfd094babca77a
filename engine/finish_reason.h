#ifndef KVASIR_ENGINE_FINISH_REASON_H_
#define KVASIR_ENGINE_FINISH_REASON_H_

#include <cstddef>
#include <cstdint>

namespace kvasir {

// Why a sequence ended by itself.
enum class FinishReason : uint8_t {
  kEos,          // the model's own end token
  kStopToken,    // one of StoppingParams::token_ids
  kLength,       // max_tokens reached
  kContextFull,  // prompt and output fill the context
  kStopString,   // one of StoppingParams::strings
  kTimeLimit,    // Request::time_limit passed
};
inline constexpr size_t kFinishReasonCount = 6;

}  // namespace kvasir

#endif  // KVASIR_ENGINE_FINISH_REASON_H_
