#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/cli/answer_report.h"
#include "server/cli/chat_options.h"
#include "server/cli/commands.h"
#include "server/cli/field_options.h"
#include "server/cli/generation.h"
#include "server/cli/generation_options.h"
#include "server/cli/option_values.h"

namespace kvasir::cli {
namespace {

struct Options {
  std::optional<std::string> prompt;
  std::optional<std::vector<uint32_t>> prompt_ids;
  bool chat = false;
  ChatOptions conversation;
  GenerationOptions generation;
};

// The prompt's text; empty and no complaint if messages do without one.
std::optional<std::string> ReadPrompt(const Options& options,
                                      const Globals& globals) {
  if (options.prompt.has_value()) return options.prompt;
  if (isatty(STDIN_FILENO)) {
    Note(globals, "Type the prompt; Ctrl-D on a line of its own ends it.");
  }
  return ReadStdin();
}

bool FillPrompt(const Options& options, const Globals& globals,
                v1::GenerateRequest& request) {
  const bool chat = options.chat || options.conversation.Given();
  if (options.conversation.ContinuesMessage() &&
      (!options.conversation.HasMessages() || options.prompt.has_value())) {
    // It would go on with what the user is about to say.
    Complain("--continue-final-message: wanted --messages and no -p beside it");
    return false;
  }
  if (options.prompt_ids.has_value()) {
    if (chat) {
      Complain("--prompt-token-ids: wanted no chat beside it, found one");
      return false;
    }
    request.mutable_token_ids()->mutable_ids()->Add(options.prompt_ids->begin(),
                                                    options.prompt_ids->end());
    return true;
  }
  if (chat) {
    std::optional<v1::ChatPrompt> conversation = options.conversation.Read();
    if (!conversation.has_value()) return false;
    *request.mutable_chat() = *std::move(conversation);
  }
  // Messages need no further one.
  if (options.conversation.HasMessages() && !options.prompt.has_value()) {
    return true;
  }
  std::optional<std::string> prompt = ReadPrompt(options, globals);
  if (!prompt.has_value()) return false;
  if (chat) {
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content(*std::move(prompt));
  } else {
    request.set_text(*std::move(prompt));
  }
  return true;
}

std::optional<v1::GenerateRequest> MakeRequest(const Options& options,
                                               const Globals& globals) {
  v1::GenerateRequest request = options.generation.request();
  request.set_stream(options.generation.stream().value_or(!globals.json));
  if (request.output().usage_every_chunk() &&
      !(globals.json && request.stream())) {
    Complain("--usage-every-chunk: wanted -o json --stream beside it");
    return std::nullopt;
  }
  if (!FillPrompt(options, globals, request)) return std::nullopt;
  return request;
}

// With `stream` each event on a line as it comes; else each sequence as the
// message that ends it, one on a line if there are several.
int PrintAsJson(Client& client, const v1::GenerateRequest& request) {
  const Generation generation = Generate(
      client, request,
      [&request](const v1::GenerateResponse& event, const Generation&) {
        if (request.stream()) PrintJson(event, true);
      });
  if (!generation.status.ok()) return client.Report(generation.status);
  if (request.stream()) return kExitOk;
  for (const auto& [index, sequence] : generation.sequences) {
    v1::GenerateResponse response;
    response.set_request_id(generation.request_id);
    *response.mutable_finished() = sequence;
    PrintJson(response, generation.sequences.size() > 1);
  }
  return kExitOk;
}

// One sequence: text as it comes, then what else was asked for.
int PrintOne(Client& client, const v1::GenerateRequest& request,
             const Globals& globals) {
  const Generation generation = Generate(
      client, request,
      [&globals](const v1::GenerateResponse& event, const Generation&) {
        if (event.has_progress()) {
          Note(globals, DescribeProgress(event.progress()));
        }
        WriteText(event.delta().text() + event.finished().text());
      });
  const v1::Finished& answer = generation.first();
  if (!answer.text().empty() && answer.text().back() != '\n') WriteText("\n");
  if (!generation.sequences.empty()) {
    WriteText(RenderDetails(request, answer, StdoutIsTerminal()));
  }
  if (!generation.status.ok()) return client.Report(generation.status);
  Note(globals, DescribeGeneration(answer));
  if (globals.verbose) {
    Note(globals, absl::StrCat("seed ", answer.seed(), ", request ",
                               generation.request_id));
  }
  return kExitOk;
}

// Several: each under its number once it has ended, so that they do not mix.
int PrintSeveral(Client& client, const v1::GenerateRequest& request,
                 const Globals& globals) {
  const bool bold = StdoutIsTerminal();
  std::set<int> shown;
  const auto show = [&](const v1::Finished& sequence) {
    if (!shown.empty()) WriteText("\n");
    shown.insert(sequence.index());
    WriteText(RenderSequence(request, sequence, bold));
  };
  const Generation generation = Generate(
      client, request,
      [&](const v1::GenerateResponse& event, const Generation& so_far) {
        if (event.has_progress()) {
          Note(globals, DescribeProgress(event.progress()));
        }
        if (!event.has_finished()) return;
        show(so_far.sequences.at(event.finished().index()));
      });
  for (const auto& [index, sequence] : generation.sequences) {
    if (shown.count(index) == 0) show(sequence);
  }
  if (!generation.status.ok()) return client.Report(generation.status);
  for (const auto& [index, sequence] : generation.sequences) {
    std::string line =
        absl::StrCat("[", index + 1, "] ", DescribeSequence(sequence));
    if (globals.verbose) absl::StrAppend(&line, "; seed ", sequence.seed());
    Note(globals, line);
  }
  Note(globals, DescribeCall(generation));
  return kExitOk;
}

int Run(const Options& options, const Globals& globals) {
  const std::optional<v1::GenerateRequest> request =
      MakeRequest(options, globals);
  if (!request.has_value()) return kExitUsage;
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  if (globals.json) return PrintAsJson(client, *request);
  if (request->sampling().n() > 1) {
    return PrintSeveral(client, *request, globals);
  }
  return PrintOne(client, *request, globals);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("generate", "Continue a prompt, or answer it");
  FieldOptions prompt(*command, "Prompt");
  CLI::Option* const text = prompt.Once(
      "-p,--prompt", "TEXT",
      "The prompt; default: all of stdin, or none with --messages", ReadWord,
      [&o = *options](const std::string& v) { o.prompt = v; });
  prompt
      .Once(
          "--prompt-token-ids", "IDS",
          "Token ids to continue, such as \"1 9690 198\"", ReadSomeTokenIds,
          [&o = *options](const std::vector<uint32_t>& v) { o.prompt_ids = v; })
      ->excludes(text);
  prompt.Flag("--chat",
              "Ask as a user in the model's chat format; so do the options "
              "that follow",
              [&o = *options] { o.chat = true; });
  options->conversation.AddTo(*command);
  options->conversation.AddEndTo(*command);
  options->generation.AddTo(*command);
  command->callback([options, &action] {
    action = [options](const Globals& globals) {
      return Run(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
