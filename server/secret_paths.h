#ifndef KVASIR_SERVER_SECRET_PATHS_H_
#define KVASIR_SERVER_SECRET_PATHS_H_

#include <string>

namespace kvasir {

// Where the server's identity is, as PEM files. Plain value.
struct TlsPaths {
  std::string cert;       // the server's first, then the chain to a root
  std::string key;        // of the first, not encrypted
  std::string client_ca;  // whose clients are let in; empty: all are

  bool enabled() const { return !cert.empty(); }
  bool operator==(const TlsPaths& other) const = default;
};

// The files that say who the server is and who may call it. Plain value.
struct SecretPaths {
  TlsPaths tls;            // none: connections are not encrypted
  std::string token_file;  // empty: everybody may call everything

  bool operator==(const SecretPaths& other) const = default;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SECRET_PATHS_H_
