#include "server/cli/client.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "server/cli/format.h"
#include "server/config_values.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

constexpr auto kConnectTime = std::chrono::seconds(5);

// More than the server ever sends; lists of tokens may be long.
constexpr int kMaxReceiveBytes = 64 << 20;

bool ColourWanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

// What the server attached to an error, in words.
std::string DetailsOf(const grpc::Status& status) {
  google::rpc::Status wire;
  if (status.error_details().empty() ||
      !wire.ParseFromString(status.error_details())) {
    return "";
  }
  std::string text;
  for (const google::protobuf::Any& detail : wire.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    google::rpc::RequestInfo request;
    if (detail.UnpackTo(&info)) {
      absl::StrAppend(&text, " reason ", info.reason());
    } else if (detail.UnpackTo(&retry)) {
      absl::StrAppend(&text, ", retry in ",
                      FormatSpan(FromProto(retry.retry_delay())));
    } else if (detail.UnpackTo(&request)) {
      absl::StrAppend(&text, ", request ", request.request_id());
    }
  }
  return text;
}

}  // namespace

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) && ColourWanted(); }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) && ColourWanted(); }

void Note(const Globals& globals, const std::string& line) {
  if (globals.quiet) return;
  const bool colour = StderrIsTerminal();
  std::fprintf(stderr, "%s%s%s\n", colour ? "\033[2m" : "", line.c_str(),
               colour ? "\033[0m" : "");
}

void Complain(const std::string& line) {
  const bool colour = StderrIsTerminal();
  std::fprintf(stderr, "%skvasir:%s %s\n", colour ? "\033[31m" : "",
               colour ? "\033[0m" : "", line.c_str());
}

Client::Client(const Globals& globals) : globals_(globals) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetUserAgentPrefix("kvasir/" KVASIR_VERSION);
  const Connection& connection = globals.connection;
  if (!connection.token.empty() && !connection.tls) {
    const absl::StatusOr<HostPort> server = ParseHostPort(globals.address);
    if (server.ok() && !server->IsLoopback()) {
      Note(globals, "the token goes there in the clear (see --tls)");
    }
  }
  channel_ = OpenChannel(globals.address, connection, arguments);
  inference_ = v1::Inference::NewStub(channel_);
  admin_ = v1::CacheAdmin::NewStub(channel_);
}

bool Client::Connect() {
  const auto deadline = std::chrono::system_clock::now() + kConnectTime;
  while (true) {
    const grpc_connectivity_state state = channel_->GetState(true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE ||
        !channel_->WaitForStateChange(state, deadline)) {
      Complain(absl::StrCat("cannot connect to ", globals_.address,
                            " (is kvasird running? --addr or KVASIR_ADDR "
                            "names another server",
                            globals_.connection.tls
                                ? "; with TLS: does it speak it, are --tls-ca "
                                  "and --tls-server-name its, and does it want "
                                  "a client's --tls-cert?)"
                                : "; one with TLS wants --tls)"));
      return false;
    }
  }
}

void Client::SetDeadline(grpc::ClientContext& context,
                         std::optional<absl::Duration> fallback) const {
  const std::optional<absl::Duration> time =
      globals_.timeout.has_value() ? globals_.timeout : fallback;
  if (!time.has_value()) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoNanoseconds(*time));
}

int Client::Report(const grpc::Status& status) const {
  if (status.ok()) return kExitOk;
  Complain(absl::StrCat(CodeName(status.error_code()), ": ",
                        status.error_message()));
  if (const std::string details = DetailsOf(status);
      globals_.verbose && !details.empty()) {
    Note(globals_, absl::StrCat("       ", details));
  }
  return kExitStatusBase + static_cast<int>(status.error_code());
}

void PrintJson(const google::protobuf::Message& message, bool one_line) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !one_line;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto printed =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!printed.ok()) {
    Complain(absl::StrCat("cannot print the answer: ", printed.ToString()));
    return;
  }
  std::fputs(text.c_str(), stdout);
  if (one_line) std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace kvasir::cli
