#ifndef KVASIR_SERVER_CLI_GENERATION_H_
#define KVASIR_SERVER_CLI_GENERATION_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "grpcpp/grpcpp.h"

#include "server/cli/client.h"

namespace kvasir::cli {

// What came of a call.
struct Generation {
  grpc::Status status;
  // Its sequences by their index, each as the one message would be that is sent
  // without `stream`: texts, ids and log-probabilities of all its events
  // joined. Of a call that fails some may lack their end.
  std::map<int, v1::Finished> sequences;
  std::string request_id;

  // The first sequence; an empty one if nothing came.
  const v1::Finished& first() const;
};

// Adds what an event tells to `generation`.
void Take(const v1::GenerateResponse& event, Generation& generation);

// Calls Generate and hands each event to `on_event` as it comes, after it is in
// the Generation so far. Ctrl-C cancels the call.
Generation Generate(Client& client, const v1::GenerateRequest& request,
                    const std::function<void(const v1::GenerateResponse&,
                                             const Generation&)>& on_event);

// For CLI::Option::check(): what is wrong with the text of a time to live.
std::string CheckTtl(const std::string& text);
// One that passed.
google::protobuf::Duration ReadTtl(const std::string& text);

// Writes text to stdout at once. Whether that worked is asked once, by
// CloseStdout().
void WriteText(const std::string& text);

// False, with a complaint, if anything written to stdout is lost.
bool CloseStdout();

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
