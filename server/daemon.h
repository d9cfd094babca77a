#ifndef KVASIR_SERVER_DAEMON_H_
#define KVASIR_SERVER_DAEMON_H_

#include "server/server_config.h"

namespace kvasir {

// kvasird's life: take the ports, load the model, serve, drain, end. Returns
// the exit code: 0 after SIGTERM or SIGINT at any time, 1 for what kept it from
// serving, said in one line on stderr. A second signal ends the process at once
// with 128 plus the signal's number.
//
// Main thread, before any other thread exists.
int RunDaemon(const ServerConfig& config);

}  // namespace kvasir

#endif  // KVASIR_SERVER_DAEMON_H_
