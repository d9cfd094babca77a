#include "server/request_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/chat_format.h"
#include "engine/model/utf8.h"
#include "server/request_rules.h"
#include "server/retention_codec.h"
#include "server/text.h"

namespace kvasir {
namespace {

template <typename Wanted, typename Found>
absl::Status Fault(std::string_view field, const Wanted& wanted,
                   const Found& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(field), ": wanted ", wanted, ", found ", found));
}

// A token id as the engine counts; what no vocabulary can hold becomes -1,
// which the engine refuses by index, so it is refused here with the number
// sent.
absl::StatusOr<std::vector<TokenId>> DecodeIds(
    std::string_view field,
    const google::protobuf::RepeatedField<uint32_t>& wire, int32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(wire.size()));
  for (int i = 0; i < wire.size(); ++i) {
    if (wire[i] >= static_cast<uint32_t>(vocab_size)) {
      return Fault(absl::StrCat(View(field), "[", i, "]"),
                   absl::StrCat("a token id in [0, ", vocab_size, ")"),
                   wire[i]);
    }
    ids.push_back(static_cast<TokenId>(wire[i]));
  }
  return ids;
}

// Refuses what is `least` tokens or more, before it is copied or tokenised.
template <typename Found>
absl::Status CheckFitsContext(size_t least, const ServedModel& model,
                              const Found& found) {
  if (least < static_cast<size_t>(model.longest_context)) {
    return absl::OkStatus();
  }
  // The engine's codes and words for a prompt that it has counted.
  const bool cache = model.cache_limits_context;
  const int64_t most = cache ? model.max_context : model.longest_context;
  const std::string message =
      absl::StrCat("prompt: wanted at most ", most - 1, " tokens (a ",
                   cache ? "KV cache" : "context", " of ", most,
                   " less one to generate), found ", found);
  return cache ? absl::ResourceExhaustedError(message)
               : absl::InvalidArgumentError(message);
}

// A text is too long whatever its tokens turn out to be: none stands for more
// bytes than the longest.
absl::Status CheckTextFitsContext(size_t bytes, const ServedModel& model) {
  const size_t least = bytes / std::max<size_t>(1, model.longest_token_bytes);
  return CheckFitsContext(
      least, model,
      absl::StrCat("a text of ", bytes, " bytes, at least ", least, " tokens"));
}

absl::Status CheckPromptSize(const v1::GenerateRequest& wire,
                             const ServedModel& model) {
  switch (wire.prompt_case()) {
    case v1::GenerateRequest::kText:
      RETURN_IF_ERROR(CheckTextBytes("text", wire.text().size()));
      return CheckTextFitsContext(wire.text().size(), model);
    case v1::GenerateRequest::kTokenIds:
      return CheckFitsContext(static_cast<size_t>(wire.token_ids().ids_size()),
                              model, wire.token_ids().ids_size());
    case v1::GenerateRequest::kChat:
      return CheckChat(wire.chat(), model);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return Fault("prompt", "text, token_ids or chat", "none of them");
}

absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& wire,
                                              uint64_t random_seed) {
  SamplingParams params;
  if (wire.has_temperature()) params.temperature = wire.temperature();
  if (wire.has_top_p()) params.top_p = wire.top_p();
  if (wire.has_min_p()) params.min_p = wire.min_p();
  if (wire.has_top_k()) params.top_k = wire.top_k();
  params.seed = wire.has_seed() ? wire.seed() : random_seed;
  RETURN_IF_ERROR(CheckSamplingParams(params));
  return params;
}

absl::StatusOr<StoppingParams> DecodeStopping(const v1::StoppingParams& wire,
                                              const ModelInfo& info) {
  StoppingParams params;
  if (wire.has_max_tokens()) {
    if (wire.max_tokens() < 1) {
      return Fault("stopping.max_tokens", "at least 1", wire.max_tokens());
    }
    params.max_tokens = wire.max_tokens();
  }
  if (wire.token_ids_size() > kMaxStopTokens) {
    return Fault("stopping.token_ids",
                 absl::StrCat("at most ", kMaxStopTokens, " ids"),
                 wire.token_ids_size());
  }
  ASSIGN_OR_RETURN(
      params.token_ids,
      DecodeIds("stopping.token_ids", wire.token_ids(), info.vocab_size));
  params.ignore_eos = wire.ignore_eos();
  return params;
}

// How the request's blocks are kept; see CacheOptions.
absl::StatusOr<std::optional<Retention>> DecodeKeeping(
    const v1::CacheOptions& wire) {
  const absl::StatusOr<WantedRetention> wanted = DecodeRetention(
      wire.retention(),
      wire.has_priority() ? std::optional(wire.priority()) : std::nullopt,
      wire.has_ttl() ? &wire.ttl() : nullptr);
  if (!wanted.ok()) {
    // The other room knows the field, not where it lies in the request.
    return absl::Status(wanted.status().code(),
                        absl::StrCat("cache.", wanted.status().message()));
  }
  if (wanted->pin) {
    return absl::UnimplementedError(
        "cache.retention: this server does not pin for clients, found PINNED; "
        "operators pin prefixes with CacheAdmin");
  }
  const bool neutral = wire.retention() == v1::RETENTION_UNSPECIFIED ||
                       wire.retention() == v1::RETENTION_NORMAL;
  if (wire.mode() == v1::CACHE_MODE_BYPASS &&
      (!neutral || wire.has_priority() || wire.has_ttl())) {
    return Fault("cache.mode",
                 "READ_WRITE or READ_ONLY with retention, "
                 "priority or ttl",
                 "BYPASS");
  }
  return wanted->retention;
}

absl::StatusOr<CacheUse> DecodeCache(const v1::CacheOptions& wire) {
  CacheUse use;
  switch (wire.mode()) {
    case v1::CACHE_MODE_UNSPECIFIED:
    case v1::CACHE_MODE_READ_WRITE:
      break;
    case v1::CACHE_MODE_READ_ONLY:
      use.write = false;
      break;
    case v1::CACHE_MODE_BYPASS:
      use.read = false;
      use.write = false;
      break;
    default:
      return Fault("cache.mode", "READ_WRITE, READ_ONLY or BYPASS",
                   static_cast<int>(wire.mode()));
  }
  if (wire.has_store_completion() && wire.store_completion() != use.write) {
    if (wire.store_completion()) {
      return Fault("cache.store_completion", "false with this cache.mode",
                   "true");
    }
    return absl::UnimplementedError(
        "cache.store_completion: this server does not keep the prompt without "
        "the output yet; cache.mode READ_ONLY keeps neither");
  }
  if (wire.salt().size() > kMaxSaltBytes) {
    return Fault("cache.salt",
                 absl::StrCat("at most ", kMaxSaltBytes, " bytes"),
                 wire.salt().size());
  }
  use.salt = wire.salt();
  ASSIGN_OR_RETURN(use.retention, DecodeKeeping(wire));
  return use;
}

absl::Status DecodeOutput(const v1::OutputOptions& wire, GenerateCall& call) {
  if (wire.stream_interval() < 0 ||
      wire.stream_interval() > kMaxStreamInterval) {
    return Fault("output.stream_interval",
                 absl::StrCat("0 to ", kMaxStreamInterval),
                 wire.stream_interval());
  }
  call.stream_interval = std::max(1, wire.stream_interval());
  call.return_text = !wire.has_return_text() || wire.return_text();
  call.return_token_ids = wire.return_token_ids() || !call.return_text;
  call.usage_every_chunk = wire.usage_every_chunk();
  call.timings = wire.timings();
  call.request.skip_special_tokens =
      !wire.has_skip_special_tokens() || wire.skip_special_tokens();
  return absl::OkStatus();
}

}  // namespace

ServedModel ModelOf(const ServedVersion& version) {
  const RequestLimits limits = version.limits();
  return {
      .tokenizer = &version.tokenizer(),
      .info = &version.info(),
      .longest_token_bytes = version.longest_token_bytes(),
      .max_context = limits.EffectiveContext(),
      .longest_context = limits.LongestContext(),
      .cache_limits_context = limits.LongestContext() < limits.model_context};
}

absl::StatusOr<std::string> ChooseRequestId(std::string_view in_message,
                                            std::string_view in_metadata,
                                            std::string_view made) {
  const bool from_message = !in_message.empty();
  const std::string_view id = from_message ? in_message : in_metadata;
  if (id.empty()) return std::string(made);
  const char* field = from_message ? "request_id" : "metadata x-request-id";
  if (id.size() > kMaxRequestIdBytes) {
    return Fault(field, absl::StrCat("at most ", kMaxRequestIdBytes, " bytes"),
                 id.size());
  }
  for (size_t i = 0; i < id.size(); ++i) {
    const auto byte = static_cast<unsigned char>(id[i]);
    if (byte > ' ' && byte < 0x7F) continue;
    return Fault(field, "visible ASCII",
                 absl::StrCat("byte ", static_cast<int>(byte), " at ", i));
  }
  return std::string(id);
}

absl::Status CheckTextBytes(std::string_view field, size_t bytes) {
  if (bytes <= kMaxPromptBytes) return absl::OkStatus();
  return Fault(field, absl::StrCat("at most ", kMaxPromptBytes, " bytes"),
               bytes);
}

absl::StatusOr<absl::Duration> DecodePositiveDuration(
    std::string_view field, const google::protobuf::Duration& wire) {
  constexpr int32_t kNanos = 1000000000;
  // What the well-known type allows, about 10,000 years.
  constexpr int64_t kMaxSeconds = 315576000000;
  if (wire.seconds() > kMaxSeconds || wire.nanos() >= kNanos ||
      wire.seconds() < 0 || wire.nanos() < 0 ||
      (wire.seconds() == 0 && wire.nanos() == 0)) {
    return Fault(field,
                 absl::StrCat("a time above 0 and at most ", kMaxSeconds, " s"),
                 absl::StrCat(wire.seconds(), " s and ", wire.nanos(), " ns"));
  }
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

size_t TextBytes(const v1::ChatPrompt& chat) {
  size_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += message.role().size() + message.content().size();
  }
  return bytes;
}

size_t TextBytes(const v1::GenerateRequest& wire) {
  return wire.has_chat() ? TextBytes(wire.chat()) : wire.text().size();
}

absl::Status CheckChat(const v1::ChatPrompt& chat, const ServedModel& model) {
  if (chat.messages_size() > kMaxChatMessages) {
    return Fault("chat.messages",
                 absl::StrCat("at most ", kMaxChatMessages, " messages"),
                 chat.messages_size());
  }
  const size_t bytes = TextBytes(chat);
  RETURN_IF_ERROR(CheckTextBytes("chat.messages", bytes));
  return CheckTextFitsContext(bytes, model);
}

absl::StatusOr<std::vector<TokenId>> EncodeChatPrompt(
    const v1::ChatPrompt& chat, const ServedModel& model) {
  std::vector<ChatMessage> messages;
  messages.reserve(static_cast<size_t>(chat.messages_size()));
  for (const v1::ChatMessage& message : chat.messages()) {
    messages.push_back({message.role(), message.content()});
  }
  absl::StatusOr<std::vector<TokenId>> ids = EncodeChat(
      *model.tokenizer, messages,
      !chat.has_add_generation_prompt() || chat.add_generation_prompt());
  if (absl::IsInvalidArgument(ids.status())) {
    // The model room knows the messages, not where they lie in the request.
    return absl::InvalidArgumentError(
        absl::StrCat("chat.", ids.status().message()));
  }
  return ids;
}

absl::StatusOr<std::vector<TokenId>> DecodePrompt(
    const v1::GenerateRequest& wire, const ServedModel& model) {
  switch (wire.prompt_case()) {
    case v1::GenerateRequest::kTokenIds:
      return DecodeIds("token_ids.ids", wire.token_ids().ids(),
                       model.info->vocab_size);
    case v1::GenerateRequest::kChat:
      return EncodeChatPrompt(wire.chat(), model);
    default:
      return model.tokenizer->Encode(wire.text(), /*add_special=*/true);
  }
}

absl::StatusOr<GenerateCall> DecodeSettings(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model) {
  RETURN_IF_ERROR(CheckKnownFields(wire));
  GenerateCall call;
  call.stream = wire.stream();
  Request& request = call.request;
  request.id = context.request_id;
  RETURN_IF_ERROR(DecodeOutput(wire.output(), call));
  ASSIGN_OR_RETURN(request.sampling,
                   DecodeSampling(wire.sampling(), context.random_seed));
  ASSIGN_OR_RETURN(request.stopping,
                   DecodeStopping(wire.stopping(), *model.info));
  ASSIGN_OR_RETURN(request.cache, DecodeCache(wire.cache()));
  request.deadline = context.deadline;
  if (wire.has_max_time()) {
    ASSIGN_OR_RETURN(const absl::Duration max_time,
                     DecodePositiveDuration("max_time", wire.max_time()));
    if (context.now + max_time < request.deadline) {
      request.deadline = context.now + max_time;
      call.deadline_is_max_time = true;
    }
  }
  RETURN_IF_ERROR(CheckPromptSize(wire, model));
  return call;
}

absl::StatusOr<GenerateCall> DecodeGenerate(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model) {
  ASSIGN_OR_RETURN(GenerateCall call, DecodeSettings(wire, context, model));
  ASSIGN_OR_RETURN(call.request.prompt, DecodePrompt(wire, model));
  return call;
}

}  // namespace kvasir
