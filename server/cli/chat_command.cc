#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/cli/answer_report.h"
#include "server/cli/chat_options.h"
#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/generation_options.h"
#include "server/cli/interrupt.h"

namespace kvasir::cli {
namespace {

struct Options {
  ChatOptions conversation;
  GenerationOptions generation;
};

constexpr const char* kHelp =
    "/clear  forget the conversation\n"
    "/stats  numbers of the last answer and of the conversation\n"
    "/help   this list\n"
    "Ctrl-C stops an answer, Ctrl-D ends the chat.";

// A conversation at the terminal. Answers go to stdout, all else to stderr, so
// that a chat can be kept in a file.
class Chat {
 public:
  Chat(const Options& options, const Globals& globals, v1::ChatPrompt start)
      : options_(options),
        globals_(globals),
        start_(std::move(start)),
        client_(globals) {
    Clear();
  }

  int Run();

 private:
  void Clear();
  void Prompt() const;
  bool Obey(const std::string& line);  // false: it is no command
  int Ask(const std::string& text);
  Generation Stream(const v1::GenerateRequest& request);
  void Show(const v1::GenerateRequest& request, const Generation& generation);
  void ShowStats() const;

  const Options& options_;
  const Globals& globals_;
  const v1::ChatPrompt start_;
  Client client_;
  v1::ChatPrompt conversation_;
  std::optional<v1::Finished> last_;
};

void Chat::Clear() {
  conversation_ = start_;
  last_.reset();
}

void Chat::Prompt() const {
  if (!isatty(STDIN_FILENO)) return;
  std::fputs(StderrIsTerminal() ? "\033[1m>\033[0m " : "> ", stderr);
  std::fflush(stderr);
}

int Chat::Run() {
  if (!client_.Connect()) return kExitConnect;
  if (isatty(STDIN_FILENO)) Note(globals_, kHelp);
  // At the prompt Ctrl-C only throws away the line, which the terminal does.
  const OnInterrupt hint([this] {
    std::fputs("\n", stderr);
    Prompt();
  });
  int code = kExitOk;
  std::string line;
  for (Prompt(); std::getline(std::cin, line); Prompt()) {
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty() || Obey(text)) continue;
    if (!CheckText("the line", text)) {
      code = kExitUsage;
      continue;
    }
    code = Ask(text);
  }
  if (isatty(STDIN_FILENO)) std::fputs("\n", stderr);
  // In a pipe the last answer decides; at a terminal the person has seen it.
  return isatty(STDIN_FILENO) ? kExitOk : code;
}

bool Chat::Obey(const std::string& line) {
  if (line[0] != '/') return false;
  if (line == "/clear") {
    Clear();
    Note(globals_, "The conversation is forgotten.");
  } else if (line == "/stats") {
    ShowStats();
  } else {
    if (line != "/help") Note(globals_, "No command " + Visible(line));
    Note(globals_, kHelp);
  }
  return true;
}

Generation Chat::Stream(const v1::GenerateRequest& request) {
  return Generate(client_, request,
                  [this](const v1::GenerateResponse& event, const Generation&) {
                    if (event.has_progress()) {
                      Note(globals_, DescribeProgress(event.progress()));
                    }
                    if (!globals_.json) WriteText(event.delta().text());
                  });
}

// What the text as it came has not shown.
void Chat::Show(const v1::GenerateRequest& request,
                const Generation& generation) {
  const v1::Finished& answer = generation.first();
  if (globals_.json) {
    if (!generation.status.ok()) return;
    v1::GenerateResponse response;
    response.set_request_id(generation.request_id);
    *response.mutable_finished() = answer;
    PrintJson(response, true);
    return;
  }
  if (!answer.text().empty()) WriteText("\n");
  WriteText(RenderDetails(request, answer, StdoutIsTerminal()));
}

int Chat::Ask(const std::string& text) {
  v1::ChatMessage& question = *conversation_.add_messages();
  question.set_role("user");
  question.set_content(text);
  v1::GenerateRequest request = options_.generation.request();
  request.set_stream(true);
  *request.mutable_chat() = conversation_;
  const Generation generation = Stream(request);
  Show(request, generation);
  const bool stopped =
      generation.status.error_code() == grpc::StatusCode::CANCELLED;
  if (!generation.status.ok() && !stopped) {
    // As if it had not been asked.
    conversation_.mutable_messages()->RemoveLast();
    return client_.Report(generation.status);
  }
  v1::ChatMessage& answer = *conversation_.add_messages();
  answer.set_role("assistant");
  answer.set_content(generation.first().text());
  if (stopped) {
    Note(globals_, "(stopped)");
    return kExitOk;
  }
  last_ = generation.first();
  if (globals_.verbose) Note(globals_, DescribeGeneration(*last_));
  return kExitOk;
}

void Chat::ShowStats() const {
  Note(globals_, Plural(conversation_.messages_size(), "message"));
  if (last_.has_value()) Note(globals_, DescribeGeneration(*last_));
}

int RunChat(const Options& options, const Globals& globals) {
  std::optional<v1::ChatPrompt> start = options.conversation.Read();
  if (!start.has_value()) return kExitUsage;
  return Chat(options, globals, *std::move(start)).Run();
}

}  // namespace

void AddChatCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  options->conversation.AddTo(*command);
  options->generation.AddToChat(*command);
  command->callback([options, &action] {
    action = [options](const Globals& globals) {
      return RunChat(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
