#ifndef KVASIR_SERVER_CLI_GENERATION_H_
#define KVASIR_SERVER_CLI_GENERATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "grpcpp/grpcpp.h"

#include "CLI/CLI.hpp"
#include "server/cli/client.h"

namespace kvasir::cli {

// What generate and chat share: how to sample, when to stop.
struct GenerationOptions {
  std::string model;
  std::optional<int32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<uint64_t> seed;
  bool ignore_eos = false;
  bool no_cache = false;
  std::string salt;

  void AddTo(CLI::App& command);
  void Fill(v1::GenerateRequest& request) const;
};

// What came of a call.
struct Generation {
  grpc::Status status;
  std::string text;
  v1::Finished finished;  // if the status is OK
};

// Calls Generate with `stream` set and hands each piece of text to `on_text` as
// it comes. Ctrl-C cancels the call.
Generation StreamGeneration(
    Client& client, v1::GenerateRequest request,
    const std::function<void(const std::string&)>& on_text);

// Writes text to stdout at once.
void WriteText(const std::string& text);

// One line for people: tokens, cached tokens, times, why it ended.
std::string DescribeGeneration(const v1::Finished& finished);

// "eos", "length", ... as in the enum, lower case.
std::string ReasonName(v1::FinishReason reason);

// The bytes of a file, or an empty optional and a complaint.
std::optional<std::string> ReadFile(const std::string& path);
std::string ReadStdin();

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_GENERATION_H_
