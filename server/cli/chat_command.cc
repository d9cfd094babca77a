#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/interrupt.h"

namespace kvasir::cli {
namespace {

struct Options {
  GenerationOptions generation;
  std::string system;
  std::string system_file;
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
  Chat(const Options& options, const Globals& globals, std::string system)
      : options_(options),
        globals_(globals),
        system_(std::move(system)),
        client_(globals) {
    Clear();
  }

  int Run();

 private:
  void Clear();
  void Prompt() const;
  bool Obey(const std::string& line);  // false: it is no command
  int Ask(const std::string& text);
  void ShowStats() const;

  const Options& options_;
  const Globals& globals_;
  const std::string system_;
  Client client_;
  v1::ChatPrompt conversation_;
  std::optional<v1::Finished> last_;
};

void Chat::Clear() {
  conversation_.Clear();
  last_.reset();
  if (system_.empty()) return;
  v1::ChatMessage& message = *conversation_.add_messages();
  message.set_role("system");
  message.set_content(system_);
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

int Chat::Ask(const std::string& text) {
  v1::ChatMessage& question = *conversation_.add_messages();
  question.set_role("user");
  question.set_content(text);
  v1::GenerateRequest request;
  options_.generation.Fill(request);
  *request.mutable_chat() = conversation_;
  const Generation generation =
      StreamGeneration(client_, std::move(request), WriteText);
  if (!generation.text.empty()) WriteText("\n");
  const bool stopped =
      generation.status.error_code() == grpc::StatusCode::CANCELLED;
  if (!generation.status.ok() && !stopped) {
    // As if it had not been asked.
    conversation_.mutable_messages()->RemoveLast();
    return client_.Report(generation.status);
  }
  v1::ChatMessage& answer = *conversation_.add_messages();
  answer.set_role("assistant");
  answer.set_content(generation.text);
  if (stopped) {
    Note(globals_, "(stopped)");
    return kExitOk;
  }
  last_ = generation.finished;
  if (globals_.verbose) Note(globals_, DescribeGeneration(*last_));
  return kExitOk;
}

void Chat::ShowStats() const {
  Note(globals_, Plural(conversation_.messages_size(), "message"));
  if (last_.has_value()) Note(globals_, DescribeGeneration(*last_));
}

int RunChat(const Options& options, const Globals& globals) {
  std::string system = options.system;
  if (!options.system_file.empty()) {
    std::optional<std::string> text = ReadFile(options.system_file);
    if (!text.has_value()) return kExitUsage;
    system = *std::move(text);
  }
  return Chat(options, globals, std::move(system)).Run();
}

}  // namespace

void AddChatCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  auto* system =
      command->add_option("--system", options->system, "System message");
  command
      ->add_option("--system-file", options->system_file,
                   "The same from a file")
      ->excludes(system);
  options->generation.AddTo(*command);
  command->callback([options, &action] {
    action = [options](const Globals& globals) {
      return RunChat(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
