#ifndef KVASIR_CACHE_BASE_CHECK_H_
#define KVASIR_CACHE_BASE_CHECK_H_

// Checks for what only our own bug can cause. What the world does wrong is an
// absl::Status instead. Debian 12's Abseil (20220623) has no absl/log, hence
// these two macros.
//
//   KV_CHECK(free_blocks >= 0) << "free " << free_blocks;   // in every build
//   KV_DCHECK(on_engine_thread());                          // not with NDEBUG
//
// A failed check writes file, line, expression and message to stderr and calls
// abort(), so that a core dump shows the state that broke the invariant.

#include <sstream>

namespace kvasir::base {

// Collects the message of one failing check; its destructor aborts.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* expression);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Turns `stream << a << b` into a void expression for the macro below.
struct CheckVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace kvasir::base

#define KV_CHECK(condition)                                              \
  (condition)                                                            \
      ? (void)0                                                          \
      : ::kvasir::base::CheckVoidify() &                                 \
            ::kvasir::base::CheckFailure(__FILE__, __LINE__, #condition) \
                .stream()

#ifdef NDEBUG
#define KV_DCHECK(condition) KV_CHECK(true || (condition))
#else
#define KV_DCHECK(condition) KV_CHECK(condition)
#endif

#endif  // KVASIR_CACHE_BASE_CHECK_H_
