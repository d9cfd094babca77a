#ifndef KVASIR_SERVER_PROMPT_ECHO_H_
#define KVASIR_SERVER_PROMPT_ECHO_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/base/strong_id.h"
#include "kvasir/v1/inference.pb.h"

namespace kvasir {

// What a token id may take on the wire.
inline constexpr size_t kTokenIdBytes = 5;

// The prompt as deltas that precede the output: all of it for the first
// sequence of a call, then for the next one. Each is made when it is wanted, so
// that what waits for a client is the prompt once, however many sequences tell
// it. Plain value.
class PromptEcho {
 public:
  struct Prompt {
    std::string request_id;
    int32_t sequence_count = 1;
    std::vector<TokenId> ids;  // empty: not told
    std::string text;          // likewise
    // Stands in each delta, if it is wanted there.
    std::optional<v1::Usage> usage;
  };
  explicit PromptEcho(Prompt prompt);

  // Whether all is told; from the start if there is nothing to tell.
  bool done() const { return index_ == prompt_.sequence_count; }

  // The next delta; not once it is done.
  v1::GenerateResponse Next();

 private:
  Prompt prompt_;
  int32_t index_ = 0;      // of the sequence that is told it
  size_t ids_told_ = 0;    // to that one
  size_t bytes_told_ = 0;  // of the text, likewise
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_PROMPT_ECHO_H_
