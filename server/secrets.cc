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

// With the stamps of the files as they are now, and nothing read.
Secrets::Staged Stamped(const SecretPaths& paths) {
  Secrets::Staged staged;
  staged.paths = paths;
  staged.tls_stamp = StampOf(paths.tls);
  staged.tokens_stamp = FileStamp(paths.token_file);
  return staged;
}

absl::Status ReadTls(Secrets::Staged& staged) {
  if (!staged.paths.tls.enabled()) return absl::OkStatus();
  ASSIGN_OR_RETURN(staged.tls, ReadTlsFiles(staged.paths.tls, absl::Now()));
  return absl::OkStatus();
}

absl::Status ReadTokens(Secrets::Staged& staged) {
  if (staged.paths.token_file.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<TokenEntry>> entries =
      ReadTokenFile(staged.paths.token_file);
  if (!entries.ok()) {
    return absl::Status(
        entries.status().code(),
        absl::StrCat("--token-file: ", entries.status().message()));
  }
  staged.tokens = std::make_shared<const TokenTable>(*std::move(entries));
  return absl::OkStatus();
}

std::string FaultOf(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace

absl::StatusOr<Secrets::Staged> Secrets::Read(const SecretPaths& paths) {
  Staged staged = Stamped(paths);
  RETURN_IF_ERROR(ReadTls(staged));
  RETURN_IF_ERROR(ReadTokens(staged));
  return staged;
}

absl::StatusOr<Secrets::Staged> Secrets::ReadAgain(const SecretPaths& paths) {
  std::string tls_before, tokens_before;
  {
    absl::MutexLock lock(&mu_);
    tls_before = tls_.stamp;
    tokens_before = tokens_.stamp;
  }
  Staged staged = Stamped(paths);
  staged.tls_before = std::move(tls_before);
  staged.tokens_before = std::move(tokens_before);
  const absl::Status tls = ReadTls(staged);
  const absl::Status tokens = ReadTokens(staged);
  {
    absl::MutexLock lock(&mu_);
    std::vector<Line> untold;
    if (!tls.ok() && paths.tls == paths_.tls) {
      Note({staged.tls_stamp, FaultOf(tls)}, tls_, "certificates", state_.tls,
           untold);
    }
    // Of two faults the caller hears the first one.
    if (tls.ok() && !tokens.ok() && paths.token_file == paths_.token_file) {
      Note({staged.tokens_stamp, FaultOf(tokens)}, tokens_, "tokens",
           state_.tokens, untold);
    }
  }
  RETURN_IF_ERROR(tls);
  RETURN_IF_ERROR(tokens);
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
  std::vector<Line> lines;
  {
    absl::MutexLock lock(&mu_);
    // Between reading and now there may have been time for the watch to take
    // over files that came later: a token that was withdrawn stays so.
    const bool newer_tls = staged.paths.tls == paths_.tls &&
                           staged.tls_before.value_or(tls_.stamp) != tls_.stamp;
    const bool newer_tokens =
        staged.paths.token_file == paths_.token_file &&
        staged.tokens_before.value_or(tokens_.stamp) != tokens_.stamp;
    paths_ = staged.paths;
    if (newer_tls) {
      staged.tls.reset();
    } else {
      tls_ = {staged.tls_stamp, ""};
    }
    if (newer_tokens) {
      staged.tokens.reset();
    } else {
      tokens_ = {staged.tokens_stamp, ""};
    }
    Take(std::move(staged), lines);
    WarnOfExpiry(absl::Now(), lines);
  }
  Write(lines);
}

void Secrets::Take(Staged staged, std::vector<Line>& lines) {
  if (staged.tls.has_value()) TakeTls(*std::move(staged.tls), lines);
  if (staged.tokens != nullptr) guard_.SetTokens(std::move(staged.tokens));
}

void Secrets::TakeTls(TlsFiles files, std::vector<Line>& lines) {
  state_.has_tls = true;
  state_.has_client_ca = !files.client_ca.empty();
  state_.expiry = files.expiry;
  state_.client_ca_expiry = files.client_ca_expiry;
  if (files.key_open_to_all) {
    lines.push_back(
        {LogLevel::kWarning,
         "every user of the machine may read or write the private key",
         {{"file", paths_.tls.key}}});
  }
  warned_ = absl::InfinitePast();
  identity_->Replace(std::move(files));
}

// Files are read without the lock: they may lie where reading takes long.
void Secrets::Poll() {
  absl::MutexLock polling(&polling_);
  Looked tls_before, tokens_before;
  SecretPaths paths;
  {
    absl::MutexLock lock(&mu_);
    paths = paths_;
    tls_before = tls_;
    tokens_before = tokens_;
  }
  const auto due = [](const Looked& before, const std::string& stamp) {
    return before.stamp != stamp || !before.fault.empty();
  };
  // The stamps are older than what is read, so a later change is another one.
  Staged staged = Stamped(paths);
  const bool tls_due = due(tls_before, staged.tls_stamp);
  const bool tokens_due = due(tokens_before, staged.tokens_stamp);
  const absl::Status tls = tls_due ? ReadTls(staged) : absl::OkStatus();
  const absl::Status tokens =
      tokens_due ? ReadTokens(staged) : absl::OkStatus();
  std::vector<Line> lines;
  {
    absl::MutexLock lock(&mu_);
    // Unless a reload has looked at them meanwhile.
    if (paths_ == paths && tls_ == tls_before && tokens_ == tokens_before) {
      if (tls_due) {
        Note({staged.tls_stamp, FaultOf(tls)}, tls_, "certificates", state_.tls,
             lines);
      }
      if (tokens_due) {
        Note({staged.tokens_stamp, FaultOf(tokens)}, tokens_, "tokens",
             state_.tokens, lines);
      }
      Take(std::move(staged), lines);
    }
    WarnOfExpiry(absl::Now(), lines);
  }
  Write(lines);
}

void Secrets::Note(Looked found, Looked& looked, const char* what,
                   Reloads& count, std::vector<Line>& lines) {
  if (found == looked) return;
  looked = std::move(found);
  if (looked.fault.empty()) {
    ++count.ok;
    lines.push_back(
        {LogLevel::kInfo, absl::StrCat("new ", what, " are in force"), {}});
    return;
  }
  ++count.failed;
  lines.push_back(
      {LogLevel::kError,
       absl::StrCat("new ", what, " are not in order, the old ones stay"),
       {{"reason", looked.fault}}});
}

void Secrets::WarnOfExpiry(absl::Time now, std::vector<Line>& lines) {
  if (now - warned_ < kWarnEvery) return;
  for (const auto& [option, end] :
       {std::pair{"--tls-cert", state_.expiry},
        std::pair{"--tls-client-ca", state_.client_ca_expiry}}) {
    if (!state_.has_tls || end - now > kExpiryWarning) continue;
    warned_ = now;
    lines.push_back({LogLevel::kWarning,
                     "a certificate expires soon",
                     {{"option", option},
                      {"at", absl::FormatTime(absl::RFC3339_sec, end,
                                              absl::UTCTimeZone())}}});
  }
}

void Secrets::Write(const std::vector<Line>& lines) {
  for (const Line& line : lines) Log(line.level, line.message, line.fields);
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
