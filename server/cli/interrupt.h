#ifndef KVASIR_SERVER_CLI_INTERRUPT_H_
#define KVASIR_SERVER_CLI_INTERRUPT_H_

#include <functional>

namespace kvasir::cli {

// Takes SIGINT out of signal handlers: a thread waits for it and calls whatever
// is wanted at the moment. Call before any other thread exists.
void InstallInterrupt();

// While alive, Ctrl-C calls `action` on another thread instead of ending the
// process (with 130, as shells expect). The innermost one counts.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> action);
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;
  // Waits for the action if it is running.
  ~OnInterrupt();
};

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_INTERRUPT_H_
