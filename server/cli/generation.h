#ifndef KVASIR_SERVER_CLI_GENERATION_H_
#define KVASIR_SERVER_CLI_GENERATION_H_

#include <cstddef>
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
  std::optional<int32_t> cache_priority;
  std::string cache_ttl;
  std::string cache_version;

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

// For CLI::Option::check(): what is wrong with the text of a time to live.
std::string CheckTtl(const std::string& text);
// One that passed.
google::protobuf::Duration ReadTtl(const std::string& text);

// Writes text to stdout at once. Whether that worked is asked once, by
// CloseStdout().
void WriteText(const std::string& text);

// False, with a complaint, if anything written to stdout is lost.
bool CloseStdout();

// One line for people: tokens, cached tokens, times, why it ended.
std::string DescribeGeneration(const v1::Finished& finished);

// "eos", "length", ... as in the enum, lower case.
std::string ReasonName(v1::FinishReason reason);

// Whether `text` is UTF-8, which is all that a call can carry; if not, with a
// complaint that names it as `what`.
bool CheckText(const std::string& what, const std::string& text);

// What a prompt may be at most: the server's own limit of a message.
inline constexpr size_t kMaxInputBytes = size_t{64} << 20;

// The text of a file or of stdin, or an empty optional and a complaint.
std::optional<std::string> ReadFile(const std::string& path);
std::optional<std::string> ReadStdin();

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_GENERATION_H_
