#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/option_values.h"

namespace kvasir::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  bool chat = false;
  bool no_special = false;
  bool ids = false;
};

int Tokenize(const TokenizeOptions& options, const Globals& globals) {
  v1::TokenizeRequest request;
  request.set_model(options.model);
  request.set_with_text(true);
  const std::optional<std::string> text =
      options.text.has_value() ? options.text : ReadStdin();
  if (!text.has_value()) return kExitUsage;
  if (options.chat) {
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content(*text);
  } else {
    request.set_text(*text);
    request.set_with_offsets(true);
    if (options.no_special) request.set_add_special_tokens(false);
  }
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kQuickCall);
  v1::TokenizeResponse answer;
  const grpc::Status status =
      client.inference().Tokenize(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
    return kExitOk;
  }
  if (options.ids) {
    std::string line;
    for (const uint32_t id : answer.token_ids()) {
      absl::StrAppend(&line, line.empty() ? "" : " ", id);
    }
    WriteText(line + "\n");
  } else {
    std::vector<Table::Column> columns = {{"ID", true}, {"TEXT"}};
    if (!options.chat) {
      columns = {{"ID", true}, {"BYTES", true}, {"TEXT"}};
    }
    Table table(columns);
    for (const v1::Token& token : answer.tokens()) {
      std::vector<std::string> cells = {absl::StrCat(token.id())};
      if (!options.chat) {
        cells.push_back(absl::StrCat(token.start(), "-", token.end()));
      }
      cells.push_back(absl::StrCat("\"", Visible(token.text()), "\""));
      table.AddRow(std::move(cells));
    }
    WriteText(table.Render(StdoutIsTerminal()));
  }
  Note(globals, absl::StrCat(Plural(answer.token_count(), "token"), " of ",
                             FormatCount(answer.max_context()),
                             " that a context holds"));
  return kExitOk;
}

struct DetokenizeOptions {
  std::string model;
  std::vector<std::string> ids;
  bool skip_special = false;
};

int Detokenize(const DetokenizeOptions& options, const Globals& globals) {
  std::string text;
  for (const std::string& id : options.ids) absl::StrAppend(&text, id, " ");
  if (options.ids.empty()) {
    const std::optional<std::string> read = ReadStdin();
    if (!read.has_value()) return kExitUsage;
    text = *read;
  }
  const absl::StatusOr<std::vector<uint32_t>> ids = ReadTokenIds(text);
  if (!ids.ok()) {
    Complain(std::string(ids.status().message()));
    return kExitUsage;
  }
  v1::DetokenizeRequest request;
  request.set_model(options.model);
  request.mutable_token_ids()->Add(ids->begin(), ids->end());
  request.set_skip_special_tokens(options.skip_special);
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  grpc::ClientContext context;
  client.SetDeadline(context, kQuickCall);
  v1::DetokenizeResponse answer;
  const grpc::Status status =
      client.inference().Detokenize(&context, request, &answer);
  if (!status.ok()) return client.Report(status);
  if (globals.json) {
    PrintJson(answer, false);
  } else {
    WriteText(answer.text());
    if (StdoutIsTerminal()) WriteText("\n");
  }
  return kExitOk;
}

}  // namespace

void AddTokenizeCommands(CLI::App& app, Action& action) {
  auto tokenize = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Show the tokens of a text");
  command->add_option("text", tokenize->text,
                      "The text; default: all of stdin");
  auto* chat = command->add_flag("--chat", tokenize->chat,
                                 "As a user's message in the chat format");
  command
      ->add_flag("--no-special", tokenize->no_special,
                 "Without the BOS token that the model wants")
      ->excludes(chat);
  command->add_flag("--ids", tokenize->ids, "Only the ids, on one line");
  command->add_option("--model", tokenize->model,
                      "Model to ask; default: the first one");
  command->callback([tokenize, &action] {
    action = [tokenize](const Globals& globals) {
      return Tokenize(*tokenize, globals);
    };
  });

  auto detokenize = std::make_shared<DetokenizeOptions>();
  command = app.add_subcommand("detokenize", "Show the text of token ids");
  command->add_option("ids", detokenize->ids,
                      "Token ids; default: those on stdin");
  command->add_flag("--skip-special", detokenize->skip_special,
                    "Control tokens leave no text");
  command->add_option("--model", detokenize->model,
                      "Model to ask; default: the first one");
  command->callback([detokenize, &action] {
    action = [detokenize](const Globals& globals) {
      return Detokenize(*detokenize, globals);
    };
  });
}

}  // namespace kvasir::cli
