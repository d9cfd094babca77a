#ifndef KVASIR_SERVER_CLI_GENERATION_OPTIONS_H_
#define KVASIR_SERVER_CLI_GENERATION_OPTIONS_H_

#include <optional>

#include "CLI/CLI.hpp"
#include "kvasir/v1/inference.pb.h"

namespace kvasir::cli {

// The options of generate and chat that stand for fields of GenerateRequest:
// all that the server honours, but for the prompt. An option is called as its
// field, in the words of vLLM and OpenAI where theirs are others.
//
// Values are read, not judged: what is out of range is the server's to refuse,
// by the field's name.
class GenerationOptions {
 public:
  GenerationOptions();
  // Options write here as they are read.
  GenerationOptions(const GenerationOptions&) = delete;
  GenerationOptions& operator=(const GenerationOptions&) = delete;

  // Options of a single answer. `this` outlives the parsing.
  void AddTo(CLI::App& command);

  // Those that make sense from answer to answer of a conversation: not several
  // sequences, nor what is told of the prompt or in place of the text.
  void AddToChat(CLI::App& command);

  // What they came to; its prompt and `stream` are the caller's to set.
  const v1::GenerateRequest& request() const { return request_; }

  // --stream or --no-stream.
  std::optional<bool> stream() const { return stream_; }

 private:
  void AddCommon(CLI::App& command);

  v1::GenerateRequest request_;
  std::optional<bool> stream_;
};

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_GENERATION_OPTIONS_H_
