#ifndef KVASIR_SERVER_CLI_CLIENT_H_
#define KVASIR_SERVER_CLI_CLIENT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"

#include "kvasir/v1/cache_admin.grpc.pb.h"
#include "kvasir/v1/inference.grpc.pb.h"
#include "server/cli/connection.h"

namespace kvasir::cli {

// Exit codes of kvasir. An RPC's status is 64 plus its code, as grpcurl's.
inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 1;
inline constexpr int kExitConnect = 2;
inline constexpr int kExitOutput = 5;  // stdout took not all; health has 3, 4
inline constexpr int kExitStatusBase = 64;

// Options that every command takes.
struct Globals {
  std::string address = "localhost:8001";
  std::optional<absl::Duration> timeout;  // of the whole call
  bool json = false;                      // -o json
  bool quiet = false;                     // no notes on stderr
  bool verbose = false;
  Connection connection;
};

// Where notes and errors go, in colour if a person watches.
bool StdoutIsTerminal();  // and NO_COLOR is not set
bool StderrIsTerminal();
void Note(const Globals& globals, const std::string& line);
void Complain(const std::string& line);

// The server, once it answers. One per command.
class Client {
 public:
  explicit Client(const Globals& globals);

  // Whether there is a connection; says so on stderr if not. A server that
  // refuses is found out at once, one that is silent after some seconds.
  bool Connect();

  // `fallback` is the call's time if --timeout does not say.
  void SetDeadline(grpc::ClientContext& context,
                   std::optional<absl::Duration> fallback) const;

  // The exit code of an RPC; complains if it is not OK.
  int Report(const grpc::Status& status) const;

  v1::Inference::Stub& inference() { return *inference_; }
  v1::CacheAdmin::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  const Globals& globals_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::CacheAdmin::Stub> admin_;
};

// For calls that take no time worth speaking of.
inline constexpr absl::Duration kQuickCall = absl::Seconds(10);

// Prints a message as JSON with the field names of the .proto file.
void PrintJson(const google::protobuf::Message& message, bool one_line);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_CLIENT_H_
