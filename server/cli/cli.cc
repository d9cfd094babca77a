#include "CLI/CLI.hpp"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/commands.h"
#include "server/cli/generation.h"
#include "server/command_line.h"
#include "server/config_values.h"

namespace kvasir::cli {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 success, 1 usage, 2 no connection, 5 output lost, 64 plus "
    "the gRPC code "
    "for an error of the call.\n"
    "kvasir COMMAND --help tells more.";

void AddConnection(CLI::App& app, ConnectionOptions& options) {
  app.add_option("--token-file", options.token_file,
                 "File with the token to present, nothing else in it")
      ->envname("KVASIR_TOKEN_FILE")
      ->type_name("FILE");
  app.add_flag("--tls", options.tls,
               "Connect by TLS; so do the options that follow");
  app.add_option("--tls-ca", options.tls_ca,
                 "PEM file with the roots to trust; default: the system's")
      ->type_name("FILE");
  app.add_option("--tls-cert", options.tls_cert,
                 "PEM file with this client's certificate")
      ->type_name("FILE");
  app.add_option("--tls-key", options.tls_key, "PEM file with its private key")
      ->type_name("FILE");
  app.add_option("--tls-server-name", options.tls_server_name,
                 "Name in the server's certificate, if not the host's")
      ->type_name("NAME");
}

void AddGlobals(CLI::App& app, Globals& globals, std::string& timeout,
                std::string& output) {
  app.add_option("--addr", globals.address, "Server to call")
      ->envname("KVASIR_ADDR")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--timeout", timeout, "Longest time of a call, such as 30s")
      ->type_name("TIME");
  app.add_option("-o,--output", output, "How answers look: table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  auto* quiet = app.add_flag("-q,--quiet", globals.quiet,
                             "No notes on stderr, only errors");
  app.add_flag("-v,--verbose", globals.verbose, "More notes on stderr")
      ->excludes(quiet);
}

// CLI11 would take "--watch=false" and let the flag's callback be, so that it
// is read and forgotten.
void RefuseFlagValues(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) option->disable_flag_override();
  }
  for (CLI::App* command : app.get_subcommands({})) RefuseFlagValues(*command);
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (!CheckText("argument", argument)) return kExitUsage;
  }
  CLI::App app("kvasir talks to a kvasird.", "kvasir");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);
  app.set_version_flag("--version", "kvasir " KVASIR_VERSION);
  Globals globals;
  std::string timeout;
  std::string output = "table";
  AddGlobals(app, globals, timeout, output);
  ConnectionOptions connection;
  AddConnection(app, connection);
  Action action;
  AddGenerateCommand(app, action);
  AddChatCommand(app, action);
  AddTokenizeCommands(app, action);
  AddModelCommands(app, action);
  AddCacheCommands(app, action);
  AddHealthCommands(app, action);
  RefuseFlagValues(app);
  // CLI11 reports by exception.
  try {
    app.parse(ArgumentsForCli11(arguments));
  } catch (const CLI::ParseError& error) {
    // Help and version come this way, too.
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return CloseStdout() ? kExitOk : kExitOutput;
    }
    Complain(FaultOfCli11(error.what()) + " (see kvasir --help)");
    return kExitUsage;
  }
  globals.json = output == "json";
  if (!timeout.empty()) {
    const absl::StatusOr<absl::Duration> time = ParseDuration(timeout);
    if (!time.ok()) {
      Complain("--timeout: " + std::string(time.status().message()));
      return kExitUsage;
    }
    globals.timeout = *time;
  }
  absl::StatusOr<Connection> read = ReadConnection(connection);
  if (!read.ok()) {
    Complain(std::string(read.status().message()));
    return kExitUsage;
  }
  globals.connection = *std::move(read);
  const int code = action(globals);
  // Never success without the output, as on a full disk.
  return CloseStdout() || code != kExitOk ? code : kExitOutput;
}

}  // namespace kvasir::cli
