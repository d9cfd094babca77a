#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/cli/commands.h"
#include "server/cli/generation.h"
#include "server/cli/interrupt.h"

namespace kvasir::cli {
namespace {

struct Options {
  GenerationOptions generation;
  std::optional<std::string> prompt;
  bool chat = false;
  std::string system;
  std::string system_file;
};

std::optional<v1::GenerateRequest> MakeRequest(const Options& options,
                                               const Globals& globals) {
  v1::GenerateRequest request;
  options.generation.Fill(request);
  std::string system = options.system;
  if (!options.system_file.empty()) {
    std::optional<std::string> text = ReadFile(options.system_file);
    if (!text.has_value()) return std::nullopt;
    system = *std::move(text);
  }
  if (!options.prompt.has_value() && isatty(STDIN_FILENO)) {
    Note(globals, "Type the prompt; Ctrl-D on a line of its own ends it.");
  }
  const std::optional<std::string> prompt =
      options.prompt.has_value() ? options.prompt : ReadStdin();
  if (!prompt.has_value()) return std::nullopt;
  if (!options.chat && system.empty()) {
    request.set_text(*prompt);
    return request;
  }
  if (!system.empty()) {
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("system");
    message.set_content(system);
  }
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content(*prompt);
  return request;
}

// One JSON object at the end instead of text as it comes.
int PrintAnswerAsJson(Client& client, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  client.SetDeadline(context, std::nullopt);
  const OnInterrupt cancel([&context] { context.TryCancel(); });
  const auto reader = client.inference().Generate(&context, request);
  v1::GenerateResponse response;
  v1::GenerateResponse last;
  while (reader->Read(&response)) last = response;
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return client.Report(status);
  PrintJson(last, false);
  return kExitOk;
}

int Generate(const Options& options, const Globals& globals) {
  const std::optional<v1::GenerateRequest> request =
      MakeRequest(options, globals);
  if (!request.has_value()) return kExitUsage;
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  if (globals.json) return PrintAnswerAsJson(client, *request);
  const Generation generation = StreamGeneration(client, *request, WriteText);
  if (!generation.text.empty() && generation.text.back() != '\n') {
    WriteText("\n");
  }
  if (!generation.status.ok()) return client.Report(generation.status);
  Note(globals, DescribeGeneration(generation.finished));
  if (globals.verbose) {
    Note(globals, absl::StrCat("seed ", generation.finished.seed()));
  }
  return kExitOk;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a prompt, or answer it");
  command->add_option("-p,--prompt", options->prompt,
                      "The prompt; default: all of stdin");
  command->add_flag("--chat", options->chat,
                    "Ask as a user in the model's chat format");
  auto* system = command->add_option("--system", options->system,
                                     "System message; implies --chat");
  command
      ->add_option("--system-file", options->system_file,
                   "The same from a file")
      ->excludes(system);
  options->generation.AddTo(*command);
  command->callback([options, &action] {
    action = [options](const Globals& globals) {
      return Generate(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
