#include "server/security_options.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "server/config_option.h"
#include "server/config_values.h"

namespace kvasir {
namespace {

template <auto Member>
absl::Status SetTlsPath(ConfigTarget target, const std::string& text) {
  target.config.secrets.tls.*Member = text;
  return absl::OkStatus();
}

absl::Status SetTokenFile(ConfigTarget target, const std::string& text) {
  target.config.secrets.token_file = text;
  return absl::OkStatus();
}

absl::Status SetTokensWithoutTls(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.tokens_without_tls, ParseBool(text));
  return absl::OkStatus();
}

const ConfigOption kOptions[] = {
    {"tls.cert", "--tls-cert", "FILE", "",
     "PEM file with the server's certificate and its chain; gRPC then takes "
     "TLS only",
     SetTlsPath<&TlsPaths::cert>},
    {"tls.key", "--tls-key", "FILE", "",
     "PEM file with the certificate's private key", SetTlsPath<&TlsPaths::key>},
    {"tls.client_ca", "--tls-client-ca", "FILE", "",
     "PEM file with roots; only clients with a certificate from one of them "
     "are let in",
     SetTlsPath<&TlsPaths::client_ca>},
    {"auth.token_file", "--token-file", "FILE", "",
     "YAML file with the tokens, tenants and scopes of those who may call; see "
     "README, Security",
     SetTokenFile},
    {"auth.tokens_without_tls", "--tokens-without-tls", "BOOL", "false",
     "Takes tokens on listeners beyond this machine without TLS, since "
     "something else encrypts what goes there",
     SetTokensWithoutTls},
};

}  // namespace

absl::Span<const ConfigOption> SecurityConfigOptions() { return kOptions; }

std::optional<SecurityConflict> FindSecurityConflict(
    const ServerConfig& config) {
  const TlsPaths& tls = config.secrets.tls;
  if (!tls.cert.empty() && tls.key.empty()) {
    return SecurityConflict{"tls.cert", "--tls-key beside it"};
  }
  if (!tls.key.empty() && tls.cert.empty()) {
    return SecurityConflict{"tls.key", "--tls-cert beside it"};
  }
  if (!tls.client_ca.empty() && tls.cert.empty()) {
    return SecurityConflict{"tls.client_ca", "--tls-cert beside it"};
  }
  const bool local =
      config.listen.IsLoopback() &&
      (!config.admin_listen.has_value() || config.admin_listen->IsLoopback());
  if (!config.secrets.token_file.empty() && !tls.enabled() && !local &&
      !config.tokens_without_tls) {
    return SecurityConflict{
        "auth.token_file",
        "--tls-cert beside it on listeners beyond this machine (or "
        "--tokens-without-tls true)"};
  }
  return std::nullopt;
}

}  // namespace kvasir
