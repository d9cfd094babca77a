#ifndef KVASIR_SERVER_SECURITY_OPTIONS_H_
#define KVASIR_SERVER_SECURITY_OPTIONS_H_

#include <optional>
#include <string>

#include "server/server_config.h"

namespace kvasir {

// A setting that does not go with others.
struct SecurityConflict {
  std::string key;     // of the option that is wrong
  std::string wanted;  // instead
};

// As far as it can be said without reading the files: a certificate has a key,
// and tokens are not sent in the clear beyond this machine, unless
// tokens_without_tls says that something else encrypts them.
std::optional<SecurityConflict> FindSecurityConflict(
    const ServerConfig& config);

}  // namespace kvasir

#endif  // KVASIR_SERVER_SECURITY_OPTIONS_H_
