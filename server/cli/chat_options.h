#ifndef KVASIR_SERVER_CLI_CHAT_OPTIONS_H_
#define KVASIR_SERVER_CLI_CHAT_OPTIONS_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "kvasir/v1/inference.pb.h"

namespace kvasir::cli {

// The options of generate and chat that stand for fields of ChatPrompt.
class ChatOptions {
 public:
  ChatOptions() = default;
  // Options write here as they are read.
  ChatOptions(const ChatOptions&) = delete;
  ChatOptions& operator=(const ChatOptions&) = delete;

  // What a conversation begins with. `this` outlives the parsing.
  void AddTo(CLI::App& command);

  // How it ends, which is the caller's to say only if there is no next turn.
  void AddEndTo(CLI::App& command);

  // Whether any of them was given.
  bool Given() const;

  // Whether there are messages, besides a system's.
  bool HasMessages() const { return messages_file_.has_value(); }

  // Whether it is to go on within its last message.
  bool ContinuesMessage() const { return prompt_.continue_final_message(); }

  // The conversation up to the next message: the system's, then those of the
  // file. An empty optional, with a complaint, if a file cannot be read or is
  // not what it should be.
  std::optional<v1::ChatPrompt> Read() const;

 private:
  v1::ChatPrompt prompt_;  // without messages and tools
  std::optional<std::string> system_;
  std::optional<std::string> system_file_;
  std::optional<std::string> messages_file_;
  std::optional<std::string> tools_file_;
};

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_CHAT_OPTIONS_H_
