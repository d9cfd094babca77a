#include "server/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"

#include "cache/base/check.h"
#include "cache/base/clock.h"

namespace kvasir {

Signals::Signals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  KV_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KV_CHECK(signal_fd_ >= 0 && wake_fd_ >= 0) << "errno " << errno;
}

Signals::~Signals() {
  close(signal_fd_);
  close(wake_fd_);
}

Signals::Event Signals::Wait(absl::Duration timeout) {
  const absl::Duration deadline = Clock::Steady().Now() + timeout;
  while (true) {
    pollfd waited[] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    const absl::Duration left = std::clamp(
        deadline - Clock::Steady().Now(), absl::ZeroDuration(), absl::Hours(1));
    const int ready =
        poll(waited, 2, static_cast<int>(absl::ToInt64Milliseconds(left) + 1));
    Event event;
    signalfd_siginfo info;
    if (ready > 0 && (waited[0].revents & POLLIN) != 0 &&
        read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      event.signal = static_cast<int>(info.ssi_signo);
    }
    uint64_t count = 0;
    event.woken = ready > 0 && (waited[1].revents & POLLIN) != 0 &&
                  read(wake_fd_, &count, sizeof(count)) == sizeof(count);
    if (event.signal != 0 || event.woken) return event;
    if (Clock::Steady().Now() >= deadline) return event;
  }
}

void Signals::Wake() {
  const uint64_t one = 1;
  // Fails only if it is woken already, many times over.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

}  // namespace kvasir
