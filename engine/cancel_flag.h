#ifndef KVASIR_ENGINE_CANCEL_FLAG_H_
#define KVASIR_ENGINE_CANCEL_FLAG_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace kvasir {

// Why a request is cancelled; decides which counter grows and what the caller
// is told.
enum class CancelSource : uint8_t { kClient, kAdmin, kDrain };

// The wish that one request ends. Set from any thread, read by the engine at
// the top of a step; shared by the inbox and the request's sequence, whoever
// lets go last destroys it.
//
// The first wish wins: source and reason never change once they are readable.
class CancelFlag {
 public:
  // False if somebody else asked before.
  bool Request(CancelSource source, std::string reason) {
    int expected = kUnset;
    if (!state_.compare_exchange_strong(expected, kWriting)) return false;
    source_ = source;
    reason_ = std::move(reason);
    state_.store(kSet, std::memory_order_release);
    return true;
  }

  bool requested() const {
    return state_.load(std::memory_order_acquire) == kSet;
  }

  // Only after requested() has returned true.
  CancelSource source() const { return source_; }
  const std::string& reason() const { return reason_; }

 private:
  enum : int { kUnset, kWriting, kSet };

  std::atomic<int> state_{kUnset};
  CancelSource source_ = CancelSource::kClient;
  std::string reason_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_CANCEL_FLAG_H_
