#include "server/cli/connection.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/client_interceptor.h"

#include "cache/base/status_macros.h"
#include "server/small_file.h"

namespace kvasir::cli {
namespace {

constexpr size_t kMaxSecretFileBytes = size_t{1} << 20;

absl::StatusOr<std::string> Read(const char* option, const std::string& path) {
  if (path.empty()) return std::string();
  absl::StatusOr<SmallFile> file = ReadSmallFile(path, kMaxSecretFileBytes);
  if (file.ok()) return std::move(file->text);
  return absl::Status(file.status().code(),
                      absl::StrCat(option, ": ", file.status().message()));
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, Read("--token-file", path));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (path.empty()) return token;
  bool visible = !token.empty();
  for (const char c : token) visible = visible && c > ' ' && c < '\x7f';
  if (visible) return token;
  return absl::InvalidArgumentError(absl::StrCat(
      "--token-file: ", path, ": wanted one token of visible ASCII"));
}

// Puts the token before each call. Call credentials would do so over TLS only,
// and a server on this machine may do without.
class TokenSender final : public grpc::experimental::Interceptor {
 public:
  explicit TokenSender(const std::string* header) : header_(header) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::
                PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", *header_});
    }
    methods->Proceed();
  }

 private:
  const std::string* const header_;
};

class TokenSenders final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(const std::string& token)
      : header_("Bearer " + token) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenSender(&header_);
  }

 private:
  const std::string header_;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const Connection& connection) {
  if (!connection.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = connection.ca;
  options.pem_cert_chain = connection.cert;
  options.pem_private_key = connection.key;
  return grpc::SslCredentials(options);
}

}  // namespace

absl::StatusOr<Connection> ReadConnection(const ConnectionOptions& options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError(
        "wanted --tls-cert and --tls-key together, found one of them");
  }
  Connection connection;
  connection.tls = options.tls || !options.tls_ca.empty() ||
                   !options.tls_cert.empty() ||
                   !options.tls_server_name.empty();
  connection.server_name = options.tls_server_name;
  ASSIGN_OR_RETURN(connection.token, ReadToken(options.token_file));
  ASSIGN_OR_RETURN(connection.ca, Read("--tls-ca", options.tls_ca));
  ASSIGN_OR_RETURN(connection.cert, Read("--tls-cert", options.tls_cert));
  ASSIGN_OR_RETURN(connection.key, Read("--tls-key", options.tls_key));
  return connection;
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const Connection& connection,
                                           grpc::ChannelArguments arguments) {
  if (!connection.server_name.empty()) {
    arguments.SetSslTargetNameOverride(connection.server_name);
  }
  std::vector<
      std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
      interceptors;
  if (!connection.token.empty()) {
    interceptors.push_back(std::make_unique<TokenSenders>(connection.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, CredentialsOf(connection), arguments, std::move(interceptors));
}

}  // namespace kvasir::cli
