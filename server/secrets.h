#ifndef KVASIR_SERVER_SECRETS_H_
#define KVASIR_SERVER_SECRETS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"

#include "server/call_guard.h"
#include "server/secret_paths.h"
#include "server/tls_files.h"
#include "server/tls_identity.h"
#include "server/token_table.h"

namespace kvasir {

// The files of SecretPaths in force, and kept so: they are looked at every
// kPoll and taken over when they have changed and are in order. What is not in
// order is told in the log, counted, and changes nothing.
//
// Any thread. Outlives the servers that its credentials and guard were given
// to.
class Secrets {
 public:
  static constexpr absl::Duration kPoll = absl::Seconds(1);

  // Files that were read and found in order.
  struct Staged {
    SecretPaths paths;
    std::optional<TlsFiles> tls;
    std::shared_ptr<const TokenTable> tokens;  // may be null
    // FileStamp()s of before they were read, so that later changes differ.
    std::string tls_stamp;
    std::string tokens_stamp;
  };
  // Errors name the option and the file, and nothing of what is in it.
  static absl::StatusOr<Staged> Read(const SecretPaths& paths);

  // How often files were taken over, or were not in order, since the start.
  struct Reloads {
    int64_t ok = 0;
    int64_t failed = 0;
  };
  // For the exporter. Plain values.
  struct State {
    bool has_tls = false;
    bool has_client_ca = false;
    absl::Time expiry;
    absl::Time client_ca_expiry;
    Reloads tls;
    Reloads tokens;
    AuthFailures failures;
  };

  // Watches from now on.
  explicit Secrets(Staged staged);
  ~Secrets();

  // For one listener each.
  std::shared_ptr<grpc::ServerCredentials> MakeCredentials();

  CallGuard* guard() { return &guard_; }

  // Whether `paths` could be taken over: whether there is TLS, who may connect
  // and whether there are tokens is for the life of a server.
  bool Fits(const SecretPaths& paths) const ABSL_LOCKS_EXCLUDED(mu_);

  // Takes over files that fit.
  void Apply(Staged staged) ABSL_LOCKS_EXCLUDED(mu_);

  // Looks at once what the watch looks at every kPoll.
  void Poll() ABSL_LOCKS_EXCLUDED(mu_);

  State state() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run();
  void PollTls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PollTokens() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeTls(TlsFiles files) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WarnOfExpiry(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  CallGuard guard_;
  std::optional<TlsIdentity> identity_;  // fixed after construction

  mutable absl::Mutex mu_;
  SecretPaths paths_ ABSL_GUARDED_BY(mu_);
  std::string tls_stamp_ ABSL_GUARDED_BY(mu_);  // of the files last looked at
  std::string tokens_stamp_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_);
  absl::Time warned_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SECRETS_H_
