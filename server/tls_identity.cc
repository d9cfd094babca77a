#include "server/tls_identity.h"

#include <memory>
#include <string>
#include <utility>

#include "cache/base/check.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"

namespace kvasir {

// What one listener has been told; lives as long as the identity, since gRPC
// asks through it until the server is gone.
struct TlsListener {
  TlsIdentity* identity;
  int64_t seen = 0;  // under the identity's lock

  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config);
};

grpc_ssl_certificate_config_reload_status TlsListener::Fetch(
    void* self, grpc_ssl_server_certificate_config** config) {
  TlsListener& listener = *static_cast<TlsListener*>(self);
  TlsIdentity& identity = *listener.identity;
  absl::MutexLock lock(&identity.mu_);
  if (listener.seen == identity.generation_) {
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  }
  const TlsFiles& files = identity.files_;
  const grpc_ssl_pem_key_cert_pair pair = {files.key.c_str(),
                                           files.cert.c_str()};
  // gRPC wants roots from a fetcher in any case. Without a request for a
  // client's certificate nothing is checked against them, so any will do.
  const std::string& roots =
      identity.asks_clients_ ? files.client_ca : files.cert;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  listener.seen = identity.generation_;
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

namespace {

// gRPC's C++ credentials take files once and for all; its C ones take whom to
// ask.
class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  ReloadingCredentials(TlsListener* listener, bool asks_clients)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                asks_clients
                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                &TlsListener::Fetch, listener))) {
    KV_CHECK(credentials_ != nullptr);
  }
  ~ReloadingCredentials() override {
    grpc_server_credentials_release(credentials_);
  }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override {
    KV_CHECK(false) << "tokens are CallGuard's matter";
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

TlsIdentity::TlsIdentity(TlsFiles files)
    : asks_clients_(!files.client_ca.empty()), files_(std::move(files)) {}

TlsIdentity::~TlsIdentity() = default;

std::shared_ptr<grpc::ServerCredentials> TlsIdentity::MakeCredentials() {
  absl::MutexLock lock(&mu_);
  listeners_.push_back(std::make_unique<TlsListener>(TlsListener{this}));
  return std::make_shared<ReloadingCredentials>(listeners_.back().get(),
                                                asks_clients_);
}

void TlsIdentity::Replace(TlsFiles files) {
  absl::MutexLock lock(&mu_);
  files_ = std::move(files);
  ++generation_;
}

}  // namespace kvasir
