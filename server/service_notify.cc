#include "server/service_notify.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "server/text.h"

namespace kvasir {
namespace {

// Whoever owed a sign of life may move again before the manager's patience
// ends.
constexpr absl::Duration kNextLook = absl::Seconds(1);

// A connected socket, or -1 if there is no such listener.
int ConnectTo(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof(address.sun_path) ||
      (name[0] != '/' && name[0] != '@')) {
    return -1;
  }
  memcpy(address.sun_path, name.data(), name.size());
  // An abstract name begins with a zero and has no end but its length.
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                           name.size() + (name[0] == '/'));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// The manager takes lines.
std::string OneLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

ServiceNotifier::ServiceNotifier(const Environment& environment, pid_t self) {
  const std::optional<std::string> name = environment("NOTIFY_SOCKET");
  if (!name.has_value()) return;
  socket_ = ConnectTo(*name);
  int64_t allowed = 0;
  if (socket_ < 0 ||
      !absl::SimpleAtoi(environment("WATCHDOG_USEC").value_or(""), &allowed) ||
      allowed <= 0) {
    return;
  }
  int64_t watched = self;
  if (const auto pid = environment("WATCHDOG_PID"); pid.has_value()) {
    if (!absl::SimpleAtoi(*pid, &watched)) return;
  }
  if (watched != self) return;
  period_ = absl::Microseconds(allowed) / 2;
  next_sign_ = Clock::Steady().Now() + period_;
}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotifier::Ready(std::string_view status) {
  Send(absl::StrCat("READY=1\nSTATUS=", OneLine(status), "\n"));
}

void ServiceNotifier::Reloading(absl::Duration now) {
  Send(absl::StrCat(
      "RELOADING=1\nMONOTONIC_USEC=", absl::ToInt64Microseconds(now), "\n"));
}

void ServiceNotifier::Stopping(std::string_view status) {
  Send(absl::StrCat("STOPPING=1\nSTATUS=", OneLine(status), "\n"));
}

void ServiceNotifier::Status(std::string_view status) {
  Send(absl::StrCat("STATUS=", OneLine(status), "\n"));
}

void ServiceNotifier::GiveSign(absl::Duration now) {
  if (now < next_sign_) return;
  next_sign_ = now + period_;
  Send("WATCHDOG=1\n");
}

void ServiceNotifier::SkipSign(absl::Duration now) {
  if (now >= next_sign_) next_sign_ = now + std::min(period_, kNextLook);
}

void ServiceNotifier::Send(std::string_view text) {
  if (socket_ < 0) return;
  (void)!send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace kvasir
