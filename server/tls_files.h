#ifndef KVASIR_SERVER_TLS_FILES_H_
#define KVASIR_SERVER_TLS_FILES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/secret_paths.h"

namespace kvasir {

inline constexpr size_t kMaxPemBytes = size_t{1} << 20;
// What ends sooner is warned about, once a day.
inline constexpr absl::Duration kExpiryWarning = absl::Hours(24 * 14);

// The files, checked. Plain value; `key` is a secret.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string client_ca;  // empty if there is none

  // When the first certificate of the chain ends, and the first of the roots.
  absl::Time expiry = absl::InfiniteFuture();
  absl::Time client_ca_expiry = absl::InfiniteFuture();
  bool key_open_to_all = false;  // every user of the machine may read the key
};

// Reads the files of `paths`, which is enabled, and checks that a handshake at
// `now` could succeed: certificates that are readable, in force, and a key that
// belongs to the first of them and is strong enough. Of the roots for clients
// one in force is enough.
//
// Errors are INVALID_ARGUMENT or NOT_FOUND with the option and the file, and
// nothing of what is in it.
absl::StatusOr<TlsFiles> ReadTlsFiles(const TlsPaths& paths, absl::Time now);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TLS_FILES_H_
