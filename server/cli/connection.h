#ifndef KVASIR_SERVER_CLI_CONNECTION_H_
#define KVASIR_SERVER_CLI_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace kvasir::cli {

// How the server is reached, as the command line says it. Plain value.
struct ConnectionOptions {
  std::string token_file;
  bool tls = false;  // also if one of the following is there
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_server_name;
};

// The same with what the files hold. `token` and `key` are secrets.
struct Connection {
  std::string token;  // empty: none is sent
  bool tls = false;
  std::string ca;  // empty: the system's roots
  std::string cert;
  std::string key;
  std::string server_name;  // empty: the host's
};

// Reads the files. The token's has one token and nothing else but white space
// around it. INVALID_ARGUMENT or NOT_FOUND with the option and the file, and
// nothing of what is in it.
absl::StatusOr<Connection> ReadConnection(const ConnectionOptions& options);

// A channel whose calls all carry the token. Connects when it is used.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const Connection& connection,
                                           grpc::ChannelArguments arguments);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_CONNECTION_H_
