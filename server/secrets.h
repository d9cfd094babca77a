#ifndef KVASIR_SERVER_SECRETS_H_
#define KVASIR_SERVER_SECRETS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"

#include "server/call_guard.h"
#include "server/log.h"
#include "server/secret_paths.h"
#include "server/tls_files.h"
#include "server/tls_identity.h"
#include "server/token_table.h"

namespace kvasir {

// The files of SecretPaths in force, and kept so: they are looked at every
// kPoll and taken over when they have changed and are in order. What is not in
// order is told in the log, counted, and changes nothing.
//
// A fault is told once, by whoever sees it first, and looked at again until it
// is mended: time alone may do that, and so may another file.
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
    // Those of the files in force meanwhile; of a reload only.
    std::optional<std::string> tls_before;
    std::optional<std::string> tokens_before;
  };
  // Errors name the option and the file, and nothing of what is in it.
  static absl::StatusOr<Staged> Read(const SecretPaths& paths);

  // Likewise, for a reload. What is at fault with the files that are in force
  // is the caller's to tell, and not told again by the watch.
  absl::StatusOr<Staged> ReadAgain(const SecretPaths& paths)
      ABSL_LOCKS_EXCLUDED(mu_);

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

  // Takes over files that fit. If the watch has looked at newer ones since
  // ReadAgain(), those stay.
  void Apply(Staged staged) ABSL_LOCKS_EXCLUDED(mu_);

  // Looks at once what the watch looks at every kPoll.
  void Poll() ABSL_LOCKS_EXCLUDED(polling_, mu_);

  State state() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Files as they were looked at last.
  struct Looked {
    std::string stamp;  // as of FileStamp()
    std::string fault;  // why they are not in force; empty if they are

    bool operator==(const Looked& other) const = default;
  };
  struct Line {
    LogLevel level;
    std::string message;
    std::vector<LogField> fields;
  };

  void Run();
  static void Write(const std::vector<Line>& lines);
  // What is to be said goes into `lines`, which are written without the lock.
  void Take(Staged staged, std::vector<Line>& lines)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeTls(TlsFiles files, std::vector<Line>& lines)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WarnOfExpiry(absl::Time now, std::vector<Line>& lines)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes how files were found, counts and says it if that is news.
  void Note(Looked found, Looked& looked, const char* what, Reloads& count,
            std::vector<Line>& lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  CallGuard guard_;
  std::optional<TlsIdentity> identity_;  // fixed after construction

  absl::Mutex polling_;  // held while files are read, and for nothing else
  mutable absl::Mutex mu_;
  SecretPaths paths_ ABSL_GUARDED_BY(mu_);
  Looked tls_ ABSL_GUARDED_BY(mu_);
  Looked tokens_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_);
  absl::Time warned_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SECRETS_H_
