#ifndef KVASIR_SERVER_TLS_IDENTITY_H_
#define KVASIR_SERVER_TLS_IDENTITY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/security/server_credentials.h"

#include "server/tls_files.h"

namespace kvasir {

// Who the server is in TLS handshakes, replaceable while it listens: every
// handshake that begins after Replace() uses the new files, connections that
// are open stay as they are. TLS 1.2 and 1.3.
//
// gRPC asks for the files at each handshake (its certificate config fetcher),
// so a new identity takes effect in one step, key and certificate together. It
// does not tell whether it takes them, and asks for them once: what it would
// refuse ReadTlsFiles() has to. Any thread; outlives the servers that its
// credentials were given to.
class TlsIdentity {
 public:
  explicit TlsIdentity(TlsFiles files);
  ~TlsIdentity();

  // Credentials for one listener. Clients need a certificate if there were
  // roots for them when this was made; Replace() brings roots, too, then.
  std::shared_ptr<grpc::ServerCredentials> MakeCredentials()
      ABSL_LOCKS_EXCLUDED(mu_);

  void Replace(TlsFiles files) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend struct TlsListener;

  const bool asks_clients_;
  mutable absl::Mutex mu_;
  TlsFiles files_ ABSL_GUARDED_BY(mu_);
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<std::unique_ptr<struct TlsListener>> listeners_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_TLS_IDENTITY_H_
