#ifndef KVASIR_SERVER_CHAT_CODEC_H_
#define KVASIR_SERVER_CHAT_CODEC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/model/chat_format.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// Conversations, as Generate, Tokenize and WarmCache read them. Pure; any
// thread.

// Limits, as those of request_codec.h; the texts of a conversation together are
// at most kMaxPromptBytes.
inline constexpr int kMaxChatMessages = 4096;
inline constexpr int kMaxToolCalls = 128;  // of one message
inline constexpr int kMaxTools = 256;
// All tools together, and all arguments of tool calls together.
inline constexpr size_t kMaxToolsBytes = size_t{1} << 20;
inline constexpr size_t kMaxTemplateKwargsBytes = size_t{64} << 10;
inline constexpr int kMaxTemplateKwargsDepth = 16;

// INVALID_ARGUMENT for a conversation that is over its limits, whatever the
// model.
absl::Status CheckChat(const v1::ChatPrompt& chat);

// A conversation that passed, as of now.
absl::StatusOr<Conversation> DecodeChat(const v1::ChatPrompt& chat);

// Its ids without the messages in `left_out`. Errors: those of
// kvasir::EncodeChat(), by their names in the request ("chat.tools[2]: ...").
absl::StatusOr<std::vector<TokenId>> EncodeConversation(
    const Conversation& conversation, const ServedModel& model,
    MessageRange left_out = {});

// Both.
absl::StatusOr<std::vector<TokenId>> EncodeChatPrompt(
    const v1::ChatPrompt& chat, const ServedModel& model);

// Bytes of text that rendering and tokenising have to go through.
size_t TextBytes(const v1::ChatPrompt& chat);

// What rendering and tokenising take, in bytes of text that take as long: each
// message, call and tool counts, also one without a text.
inline constexpr size_t kWorkBytesOfPart = 128;
size_t WorkBytes(const v1::ChatPrompt& chat);

// Of the messages' own text, of which a template prints nearly all; the rest it
// may leave out.
size_t PrintedBytes(const v1::ChatPrompt& chat);

// A Struct as JSON text. Its fields have no order on the wire; here they are in
// that of their names. Whole numbers have no fraction: 1.0 is 1. Errors, which
// start with `field`: a number that JSON cannot write, a value that is not set,
// lists and objects nested deeper than kMaxTemplateKwargsDepth.
absl::StatusOr<std::string> StructToJson(const std::string& field,
                                         const google::protobuf::Struct& wire);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CHAT_CODEC_H_
