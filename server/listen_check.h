#ifndef KVASIR_SERVER_LISTEN_CHECK_H_
#define KVASIR_SERVER_LISTEN_CHECK_H_

#include <string_view>

#include "absl/status/status.h"

#include "server/config_values.h"

namespace kvasir {

// Whether something may listen on `address`, found out by doing so for a moment
// on every address its host stands for; the libraries behind the listeners only
// say that they could not. `what` is the listener's name in the error.
//
// ALREADY_EXISTS names the port that is taken, INVALID_ARGUMENT a host that
// stands for no address of this machine, PERMISSION_DENIED a port that the user
// may not have. Another program may still be quicker afterwards.
absl::Status CheckCanListen(std::string_view what, const HostPort& address);

}  // namespace kvasir

#endif  // KVASIR_SERVER_LISTEN_CHECK_H_
