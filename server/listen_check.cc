#include "server/listen_check.h"

#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/text.h"

namespace kvasir {
namespace {

// 0, or the errno that listening there met.
int TryListen(const addrinfo& info) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  // As the real listeners do: a connection of the last run that the system
  // still remembers is no reason to refuse, another listener is.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  int error = 0;
  if (info.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  if (bind(fd, info.ai_addr, info.ai_addrlen) != 0 || listen(fd, 1) != 0) {
    error = errno;
  }
  close(fd);
  return error;
}

absl::Status Fault(std::string_view what, const HostPort& address, int error) {
  const std::string where = absl::StrCat(View(what), " ", address.ToString());
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(
        where, ": port ", address.port, " is taken by another program"));
  }
  if (error == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat(where, ": port ", address.port, " needs a privilege"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": cannot listen: ", std::strerror(error)));
}

}  // namespace

absl::Status CheckCanListen(std::string_view what, const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int resolved =
      getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (resolved != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        View(what), " ", address.ToString(), ": ", gai_strerror(resolved)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found,
                                                                freeaddrinfo);
  // A host name may stand for a family that this machine does not have; one
  // address that works is enough, one that is taken is not.
  int last_error = 0;
  bool any = false;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int error = TryListen(*info);
    if (error == EADDRINUSE) return Fault(what, address, error);
    any = any || error == 0;
    if (error != 0) last_error = error;
  }
  return any ? absl::OkStatus() : Fault(what, address, last_error);
}

}  // namespace kvasir
