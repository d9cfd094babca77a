#include "server/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace kvasir::cli {
namespace {

constexpr int kInterruptedExit = 130;

// Both live as long as the process, whose end the waiting thread sees no
// sooner.
absl::Mutex& ActionsMutex() {
  static auto* const mutex = new absl::Mutex;
  return *mutex;
}

std::vector<std::function<void()>>& Actions() {
  static auto* const actions = new std::vector<std::function<void()>>;
  return *actions;
}

void WaitForSignals(sigset_t set) {
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    absl::MutexLock lock(&ActionsMutex());
    if (Actions().empty()) _exit(kInterruptedExit);
    Actions().back()();
  }
}

}  // namespace

void InstallInterrupt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(WaitForSignals, set).detach();
}

OnInterrupt::OnInterrupt(std::function<void()> action) {
  absl::MutexLock lock(&ActionsMutex());
  Actions().push_back(std::move(action));
}

OnInterrupt::~OnInterrupt() {
  absl::MutexLock lock(&ActionsMutex());
  Actions().pop_back();
}

}  // namespace kvasir::cli
