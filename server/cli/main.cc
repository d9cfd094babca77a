// kvasir: the command line for clients and operators. See `kvasir --help`.

#include <string>
#include <vector>

#include "server/cli/commands.h"
#include "server/cli/interrupt.h"

int main(int argc, char** argv) {
  kvasir::cli::InstallInterrupt();
  return kvasir::cli::RunCli(std::vector<std::string>(argv + 1, argv + argc));
}
