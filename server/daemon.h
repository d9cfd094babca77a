#ifndef KVASIR_SERVER_DAEMON_H_
#define KVASIR_SERVER_DAEMON_H_

#include "server/server_config.h"

namespace kvasir {

// kvasird's life: take the ports, load the model, serve, drain, end. Returns
// the exit code: 0 after SIGTERM or SIGINT at any time, 1 for what kept it from
// serving, said in one line on stderr. A second one of them ends the process at
// once with 128 plus the signal's number.
//
// SIGHUP has `sources` read again and takes over what config_reload.h says, all
// of it or, if something is not in order, nothing. A service manager is told of
// each change; see service_notify.h.
//
// Main thread, before any other thread exists. `parsed` comes from `sources`.
int RunDaemon(const ConfigSources& sources, ParsedConfig parsed);

}  // namespace kvasir

#endif  // KVASIR_SERVER_DAEMON_H_
