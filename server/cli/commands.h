#ifndef KVASIR_SERVER_CLI_COMMANDS_H_
#define KVASIR_SERVER_CLI_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "server/cli/client.h"

namespace kvasir::cli {

// What the command line asks for, to be run once it is wholly read. Returns the
// exit code.
using Action = std::function<int(const Globals&)>;

// Each adds its subcommands to `app`, which put what they are to do in
// `action`. Both outlive the parsing.
void AddGenerateCommand(CLI::App& app, Action& action);
void AddChatCommand(CLI::App& app, Action& action);
void AddTokenizeCommands(CLI::App& app, Action& action);
void AddModelCommands(CLI::App& app, Action& action);
void AddCacheCommands(CLI::App& app, Action& action);
void AddVersionCommands(CLI::App& cache, Action& action);
void AddWarmCommand(CLI::App& cache, Action& action);
void AddPrefixCommands(CLI::App& cache, Action& action);
void AddHealthCommands(CLI::App& app, Action& action);

// The program but for main(): arguments without the program's name; the exit
// code.
int RunCli(const std::vector<std::string>& arguments);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_COMMANDS_H_
