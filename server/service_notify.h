#ifndef KVASIR_SERVER_SERVICE_NOTIFY_H_
#define KVASIR_SERVER_SERVICE_NOTIFY_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace kvasir {

// Tells a service manager how the daemon is: the datagrams that systemd takes
// from a service of Type=notify (sd_notify(3)), sent to $NOTIFY_SOCKET without
// its library. Without that variable nothing is sent. Nobody waits for a
// manager that does not listen: what cannot be sent at once is lost.
//
// One thread at a time.
class ServiceNotifier {
 public:
  using Environment =
      std::function<std::optional<std::string>(const std::string&)>;

  // Reads NOTIFY_SOCKET, a path or an abstract name behind '@', and
  // WATCHDOG_USEC, which counts unless WATCHDOG_PID is another process than
  // `self`.
  ServiceNotifier(const Environment& environment, pid_t self);
  ~ServiceNotifier();
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;

  // Up and in the state that one line of text says; also at a reload's end.
  void Ready(std::string_view status);
  // `now`: the system's monotonic time, as steady clocks tell it.
  void Reloading(absl::Duration now);
  void Stopping(std::string_view status);
  void Status(std::string_view status);

  // When the watchdog wants its next sign of life, steady time; infinite if
  // there is none. Half of what it allows, as its manual asks for.
  absl::Duration next_sign() const { return next_sign_; }
  // Gives one, if it is due at `now`, or lets it be missed.
  void GiveSign(absl::Duration now);
  void SkipSign(absl::Duration now);

 private:
  void Send(std::string_view text);

  int socket_ = -1;  // connected; -1: nobody listens
  absl::Duration period_ = absl::InfiniteDuration();
  absl::Duration next_sign_ = absl::InfiniteDuration();
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SERVICE_NOTIFY_H_
