#ifndef KVASIR_SERVER_CLI_JSON_INPUT_H_
#define KVASIR_SERVER_CLI_JSON_INPUT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kvasir/v1/inference.pb.h"

namespace kvasir::cli {

// JSON that people hand to the command line. INVALID_ARGUMENT says what was
// wanted and, where there is one, at which byte it ends to be JSON. Whether a
// chat template takes what is read is the server's to say.

// Deepest nesting that is read. Beyond what the server takes, and far from what
// a recursive writer would overflow its stack with.
inline constexpr int kMaxJsonDepth = 128;

// That `text` is a JSON object.
absl::Status CheckJsonObject(const std::string& text);

// A conversation: a list of objects with `role`, `content` and the other fields
// of ChatMessage. A tool call may have its name and arguments inside of
// `function`, as OpenAI writes it, and its arguments as an object; a content
// of null is none. Unknown fields are faults.
absl::StatusOr<std::vector<v1::ChatMessage>> ReadMessages(
    const std::string& text);

// Tools: one object or a list of them, each returned as JSON text with its
// members in their order.
absl::StatusOr<std::vector<std::string>> ReadTools(const std::string& text);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_JSON_INPUT_H_
