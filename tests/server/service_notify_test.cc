#include "server/service_notify.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "cache/base/clock.h"
#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

constexpr pid_t kSelf = 42;

// What a service manager listens on.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const size_t size =
        offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '/');
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(size)),
              0);
  }
  ~Manager() { close(fd_); }

  // The next datagram; empty if there is none.
  std::string Next() {
    char text[4096];
    const ssize_t size = recv(fd_, text, sizeof(text), 0);
    return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
  }

 private:
  const int fd_;
};

ServiceNotifier::Environment Values(std::map<std::string, std::string> values) {
  return [values = std::move(values)](
             const std::string& name) -> std::optional<std::string> {
    const auto it = values.find(name);
    if (it == values.end()) return std::nullopt;
    return it->second;
  };
}

TEST(ServiceNotifier, SpeaksToSocketsWithPathsAndAbstractNames) {
  for (const std::string& name :
       {TempPath("notify"), absl::StrCat("@kvasir_notify_", getpid())}) {
    Manager manager(name);
    ServiceNotifier notifier(Values({{"NOTIFY_SOCKET", name}}), kSelf);
    notifier.Status("loading");
    EXPECT_EQ(manager.Next(), "STATUS=loading\n");
    notifier.Ready("serving\nREADY=0");
    EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=serving READY=0\n")
        << "a model's name is no message of its own";
    notifier.Reloading(absl::Microseconds(1234567));
    EXPECT_EQ(manager.Next(), "RELOADING=1\nMONOTONIC_USEC=1234567\n");
    notifier.Stopping("draining");
    EXPECT_EQ(manager.Next(), "STOPPING=1\nSTATUS=draining\n");
    EXPECT_EQ(notifier.next_sign(), absl::InfiniteDuration());
  }
}

TEST(ServiceNotifier, SaysNothingWhereNobodyListens) {
  for (const char* name : {"", "/", "relative", "/nowhere/at/all", "@"}) {
    ServiceNotifier notifier(
        Values({{"NOTIFY_SOCKET", name}, {"WATCHDOG_USEC", "2"}}), kSelf);
    notifier.Ready("serving");
    EXPECT_EQ(notifier.next_sign(), absl::InfiniteDuration()) << name;
  }
  ServiceNotifier none(Values({}), kSelf);
  none.Ready("serving");
  const std::string too_long = "/" + std::string(200, 'a');
  ServiceNotifier longer(Values({{"NOTIFY_SOCKET", too_long}}), kSelf);
  longer.Ready("serving");
}

// Signs at half the time that is allowed; none for another process.
TEST(ServiceNotifier, WatchdogGetsItsSignsInTime) {
  const std::string name = TempPath("notify_watchdog");
  Manager manager(name);
  std::map<std::string, std::string> values = {{"NOTIFY_SOCKET", name},
                                               {"WATCHDOG_USEC", "30000000"},
                                               {"WATCHDOG_PID", "42"}};
  const absl::Duration start = Clock::Steady().Now();
  ServiceNotifier notifier(Values(values), kSelf);
  EXPECT_GE(notifier.next_sign(), start + absl::Seconds(15));
  EXPECT_LT(notifier.next_sign(), start + absl::Seconds(16));
  notifier.GiveSign(start);
  EXPECT_EQ(manager.Next(), "") << "not yet";
  const absl::Duration due = notifier.next_sign();
  notifier.GiveSign(due);
  EXPECT_EQ(manager.Next(), "WATCHDOG=1\n");
  EXPECT_EQ(notifier.next_sign(), due + absl::Seconds(15));
  for (const char* pid : {"43", "nobody"}) {
    values["WATCHDOG_PID"] = pid;
    EXPECT_EQ(ServiceNotifier(Values(values), kSelf).next_sign(),
              absl::InfiniteDuration());
  }
  values.erase("WATCHDOG_PID");
  EXPECT_LT(ServiceNotifier(Values(values), kSelf).next_sign(),
            absl::InfiniteDuration());
  for (const char* allowed : {"0", "-5", "x"}) {
    values["WATCHDOG_USEC"] = allowed;
    EXPECT_EQ(ServiceNotifier(Values(values), kSelf).next_sign(),
              absl::InfiniteDuration());
  }
}

}  // namespace
}  // namespace kvasir
