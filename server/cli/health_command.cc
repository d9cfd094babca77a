#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/cli/commands.h"
#include "server/cli/generation.h"

namespace kvasir::cli {
namespace {

namespace health = ::grpc::health::v1;

// The codes that probes of Kubernetes know; Docker knows 0 and 1 only.
constexpr int kServing = 0;
constexpr int kBadArguments = 1;
constexpr int kNoConnection = 2;
constexpr int kRpcFailed = 3;
constexpr int kNotServing = 4;

constexpr absl::Duration kProbeTime = absl::Seconds(5);

int Probe(const std::string& service, const Globals& globals) {
  Client client(globals);
  if (!client.Connect()) return kNoConnection;
  grpc::ClientContext context;
  client.SetDeadline(context, kProbeTime);
  health::HealthCheckRequest request;
  request.set_service(service);
  health::HealthCheckResponse answer;
  const std::unique_ptr<health::Health::Stub> stub =
      health::Health::NewStub(client.channel());
  const grpc::Status status = stub->Check(&context, request, &answer);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    Complain(absl::StrCat("there is no service \"", service, "\""));
    return kRpcFailed;
  }
  if (!status.ok()) {
    client.Report(status);
    return kRpcFailed;
  }
  if (globals.json) {
    PrintJson(answer, false);
  } else {
    WriteText(health::HealthCheckResponse::ServingStatus_Name(answer.status()) +
              "\n");
  }
  return answer.status() == health::HealthCheckResponse::SERVING ? kServing
                                                                 : kNotServing;
}

int Version(const Globals& globals) {
  WriteText("kvasir " KVASIR_VERSION "\n");
  return kExitOk;
}

}  // namespace

void AddHealthCommands(CLI::App& app, Action& action) {
  auto service = std::make_shared<std::string>();
  auto docker = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "health",
      "Probe the server. Exit codes: 0 serving, 1 usage, 2 no connection, "
      "3 the call failed, 4 not serving");
  command->add_option("--service", *service,
                      "Service to ask for; default: the server as a whole");
  command->add_flag("--docker", *docker, "Only exit codes 0 and 1");
  command->callback([service, docker, &action] {
    action = [service, docker](const Globals& globals) {
      const int code = Probe(*service, globals);
      return *docker && code != kServing ? kBadArguments : code;
    };
  });
  app.add_subcommand("version", "Show this program's version")
      ->callback([&action] { action = Version; });
}

}  // namespace kvasir::cli
