#include "server/secrets.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/status_macros.h"
#include "server/log.h"
#include "server/small_file.h"
#include "server/token_file.h"

namespace kvasir {
namespace {

constexpr absl::Duration kWarnEvery = absl::Hours(24);

std::string StampOf(const TlsPaths& paths) {
  if (!paths.enabled()) return "";
  return absl::StrCat(FileStamp(paths.cert), "|", FileStamp(paths.key), "|",
                      FileStamp(paths.client_ca));
}

absl::StatusOr<std::shared_ptr<const TokenTable>> ReadTokens(
    const std::string& path) {
  absl::StatusOr<std::vector<TokenEntry>> entries = ReadTokenFile(path);
  if (entries.ok()) {
    return std::make_shared<const TokenTable>(*std::move(entries));
  }
  return absl::Status(
      entries.status().code(),
      absl::StrCat("--token-file: ", entries.status().message()));
}

// A log line per attempt; `what` is certificates or tokens.
void Tell(const absl::Status& status, const char* what,
          Secrets::Reloads& count) {
  if (status.ok()) {
    ++count.ok;
    Log(LogLevel::kInfo, absl::StrCat("new ", what, " are in force"));
    return;
  }
  ++count.failed;
  Log(LogLevel::kError,
      absl::StrCat("new ", what, " are not in order, the old ones stay"),
      {{"reason", std::string(status.message())}});
}

}  // namespace

absl::StatusOr<Secrets::Staged> Secrets::Read(const SecretPaths& paths) {
  Staged staged;
  staged.paths = paths;
  staged.tls_stamp = StampOf(paths.tls);
  staged.tokens_stamp = FileStamp(paths.token_file);
  if (paths.tls.enabled()) {
    ASSIGN_OR_RETURN(staged.tls, ReadTlsFiles(paths.tls, absl::Now()));
  }
  if (!paths.token_file.empty()) {
    ASSIGN_OR_RETURN(staged.tokens, ReadTokens(paths.token_file));
  }
  return staged;
}

Secrets::Secrets(Staged staged) {
  if (staged.tls.has_value()) identity_.emplace(*staged.tls);
  Apply(std::move(staged));
  thread_ = std::thread([this] { Run(); });
}

Secrets::~Secrets() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.join();
}

std::shared_ptr<grpc::ServerCredentials> Secrets::MakeCredentials() {
  return identity_.has_value() ? identity_->MakeCredentials()
                               : grpc::InsecureServerCredentials();
}

bool Secrets::Fits(const SecretPaths& paths) const {
  absl::MutexLock lock(&mu_);
  return paths.tls.enabled() == paths_.tls.enabled() &&
         paths.tls.client_ca.empty() == paths_.tls.client_ca.empty() &&
         paths.token_file.empty() == paths_.token_file.empty();
}

void Secrets::Apply(Staged staged) {
  absl::MutexLock lock(&mu_);
  paths_ = std::move(staged.paths);
  tls_stamp_ = std::move(staged.tls_stamp);
  tokens_stamp_ = std::move(staged.tokens_stamp);
  if (staged.tls.has_value()) TakeTls(*std::move(staged.tls));
  if (staged.tokens != nullptr) guard_.SetTokens(std::move(staged.tokens));
  WarnOfExpiry(absl::Now());
}

void Secrets::TakeTls(TlsFiles files) {
  state_.has_tls = true;
  state_.has_client_ca = !files.client_ca.empty();
  state_.expiry = files.expiry;
  state_.client_ca_expiry = files.client_ca_expiry;
  if (files.key_open_to_all) {
    Log(LogLevel::kWarning,
        "every user of the machine may read or write the private key",
        {{"file", paths_.tls.key}});
  }
  warned_ = absl::InfinitePast();
  identity_->Replace(std::move(files));
}

void Secrets::Poll() {
  absl::MutexLock lock(&mu_);
  PollTls();
  PollTokens();
  WarnOfExpiry(absl::Now());
}

void Secrets::PollTls() {
  if (!paths_.tls.enabled()) return;
  std::string stamp = StampOf(paths_.tls);
  if (stamp == tls_stamp_) return;
  // Taken before the files are read, so that a later change is another one.
  tls_stamp_ = std::move(stamp);
  absl::StatusOr<TlsFiles> files = ReadTlsFiles(paths_.tls, absl::Now());
  Tell(files.status(), "certificates", state_.tls);
  if (files.ok()) TakeTls(*std::move(files));
}

void Secrets::PollTokens() {
  if (paths_.token_file.empty()) return;
  std::string stamp = FileStamp(paths_.token_file);
  if (stamp == tokens_stamp_) return;
  tokens_stamp_ = std::move(stamp);
  absl::StatusOr<std::shared_ptr<const TokenTable>> tokens =
      ReadTokens(paths_.token_file);
  Tell(tokens.status(), "tokens", state_.tokens);
  if (tokens.ok()) guard_.SetTokens(*std::move(tokens));
}

void Secrets::WarnOfExpiry(absl::Time now) {
  if (now - warned_ < kWarnEvery) return;
  for (const auto& [option, end] :
       {std::pair{"--tls-cert", state_.expiry},
        std::pair{"--tls-client-ca", state_.client_ca_expiry}}) {
    if (!state_.has_tls || end - now > kExpiryWarning) continue;
    warned_ = now;
    Log(LogLevel::kWarning, "a certificate expires soon",
        {{"option", option},
         {"at",
          absl::FormatTime(absl::RFC3339_sec, end, absl::UTCTimeZone())}});
  }
}

Secrets::State Secrets::state() const {
  absl::MutexLock lock(&mu_);
  State state = state_;
  state.failures = guard_.failures();
  return state;
}

void Secrets::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stop_), kPoll)) return;
    }
    Poll();
  }
}

}  // namespace kvasir
