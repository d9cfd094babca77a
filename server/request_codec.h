#ifndef KVASIR_SERVER_REQUEST_CODEC_H_
#define KVASIR_SERVER_REQUEST_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "engine/engine.h"
#include "engine/model/tokenizer.h"
#include "engine/request.h"
#include "kvasir/v1/inference.pb.h"

namespace kvasir {

// Every limit on what a client may send, beside the message size of
// ServerConfig and what the model and the cache can hold. Documented in
// inference.proto; an error names the field, the limit and what was found.
inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxPromptBytes = size_t{4} << 20;
inline constexpr int kMaxStopTokens = 64;
inline constexpr size_t kMaxSaltBytes = 1024;
inline constexpr int32_t kMaxStreamInterval = 1024;
inline constexpr int32_t kMaxLogprobs = 20;
inline constexpr int kMaxLogprobIds = 64;
inline constexpr int kMaxLabels = 16;
inline constexpr size_t kMaxLabelBytes = 128;  // of a key, and of a value
inline constexpr int kMaxDetokenizeIds = 1 << 22;
inline constexpr int kMaxCancelIds = 1024;
inline constexpr size_t kMaxCancelReasonBytes = 256;

// Most bytes of an answer whose length the client decides: a quarter of what
// gRPC's clients take unless told otherwise.
inline constexpr size_t kMaxAnswerBytes = size_t{1} << 20;

// What a request is read against: a version as it is at one moment, which
// outlives this.
struct ServedModel {
  const Tokenizer* tokenizer = nullptr;
  const ModelInfo* info = nullptr;
  size_t longest_token_bytes = 1;
  // Tokens of prompt and output; and of a prompt that begins with all that is
  // pinned.
  int64_t max_context = 0;
  int64_t longest_context = 0;
  // It is the cache's size, and not the model's or the operator's limit, that
  // sets them.
  bool cache_limits_context = false;
};

ServedModel ModelOf(const ServedVersion& version);

// What to do with a prompt that is too long. Plain value.
struct Truncation {
  // Most tokens; -1: what the context has room for; 0: none are left out.
  int64_t most_tokens = 0;
  bool from_right = false;
};

// A prompt, and how many tokens were left out of it. Plain value.
struct TruncatedPrompt {
  std::vector<TokenId> ids;
  int64_t dropped_tokens = 0;
};

// A Generate call, understood: what the engine is to do, and how the client
// wants to hear of it.
struct GenerateCall {
  Request request;
  bool stream = false;
  bool return_text = true;
  bool return_token_ids = false;
  int32_t stream_interval = 1;  // tokens per delta, at least 1
  bool usage_every_chunk = false;
  bool timings = false;
  bool echo = false;  // the prompt precedes the output
  Truncation truncation;
  int64_t truncated_tokens = 0;  // left out of the prompt
};

// What a call brings beside its message.
struct CallContext {
  std::string request_id;    // in force; see ChooseRequestId()
  uint64_t random_seed = 0;  // used if the request has none
  absl::Duration now;        // steady
  absl::Duration deadline = absl::InfiniteDuration();  // steady
};

// The id of a call: the message's, else that of its metadata, else `made`.
// INVALID_ARGUMENT for one that is too long or has other than visible ASCII.
absl::StatusOr<std::string> ChooseRequestId(std::string_view in_message,
                                            std::string_view in_metadata,
                                            std::string_view made);

// INVALID_ARGUMENT with `field` unless `id` is 1 to `most_bytes` of visible
// ASCII.
absl::Status CheckId(std::string_view field, std::string_view id,
                     size_t most_bytes);

// Reads a request against the version that is to serve it, see
// ChooseVersion(); all but the prompt, whose length in bytes or ids it checks,
// and the version itself, which is the caller's to fill in. Errors: those of
// CheckKnownFields(), INVALID_ARGUMENT for a limit or an illegal value,
// RESOURCE_EXHAUSTED for a prompt that only a larger cache could hold. What
// only the engine knows (sampling ranges, the prompt's length in tokens) is
// left to Engine::Submit().
absl::StatusOr<GenerateCall> DecodeSettings(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model);

// The prompt of a request that passed DecodeSettings(), as `call`, tokenised
// and truncated if that is asked for. Errors: INVALID_ARGUMENT for an id out of
// the vocabulary, those of EncodeChat() and TruncateChat(), a chat whose tokens
// do not fit the context. `ended`: see TruncateChat().
inline bool NeverEnds() { return false; }
absl::StatusOr<TruncatedPrompt> DecodePrompt(
    const v1::GenerateRequest& wire, const GenerateCall& call,
    const ServedModel& model, absl::FunctionRef<bool()> ended = NeverEnds);

// Both.
absl::StatusOr<GenerateCall> DecodeGenerate(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model);

// What making a prompt's ids takes, in bytes of text that take as long; a token
// id counts as its four bytes.
size_t WorkBytes(const v1::GenerateRequest& wire);

// Refuses a text of so many bytes that its tokens cannot fit the context.
absl::Status CheckTextFitsContext(absl::string_view field, size_t bytes,
                                  const ServedModel& model);

// INVALID_ARGUMENT if `text` is over kMaxPromptBytes.
absl::Status CheckTextBytes(std::string_view field, size_t bytes);

// A finite, positive span; anything else is INVALID_ARGUMENT with `field`.
absl::StatusOr<absl::Duration> DecodePositiveDuration(
    std::string_view field, const google::protobuf::Duration& wire);

}  // namespace kvasir

#endif  // KVASIR_SERVER_REQUEST_CODEC_H_
