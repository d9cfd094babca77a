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
#include "engine/model/utf8.h"
#include "server/chat_codec.h"
#include "server/field_fault.h"
#include "server/generation_codec.h"
#include "server/request_rules.h"
#include "server/retention_codec.h"
#include "server/text.h"
#include "server/truncation.h"

namespace kvasir {
namespace {

// Refuses what is `least` tokens or more, before it is copied or tokenised.
template <typename Found>
absl::Status CheckFitsContext(absl::string_view field, size_t least,
                              const ServedModel& model, const Found& found) {
  if (least < static_cast<size_t>(model.longest_context)) {
    return absl::OkStatus();
  }
  // The engine's codes and words for a prompt that it has counted.
  const bool cache = model.cache_limits_context;
  const int64_t most = cache ? model.max_context : model.longest_context;
  const std::string message =
      absl::StrCat(field, ": wanted at most ", most - 1, " tokens (a ",
                   cache ? "KV cache" : "context", " of ", most,
                   " less one to generate), found ", found);
  return cache ? absl::ResourceExhaustedError(message)
               : absl::InvalidArgumentError(message);
}

absl::Status CheckPromptSize(const v1::GenerateRequest& wire,
                             const Truncation& truncation,
                             const ServedModel& served) {
  ServedModel model = served;
  if (truncation.most_tokens != 0) {
    // What is too long becomes short enough.
    model.longest_context = kMaxDetokenizeIds;
    model.max_context = kMaxDetokenizeIds;
    model.cache_limits_context = false;
    model.longest_token_bytes = kMaxPromptBytes;
  }
  switch (wire.prompt_case()) {
    case v1::GenerateRequest::kText:
      RETURN_IF_ERROR(CheckTextBytes("text", wire.text().size()));
      return CheckTextFitsContext("prompt", wire.text().size(), model);
    case v1::GenerateRequest::kTokenIds:
      return CheckFitsContext("prompt",
                              static_cast<size_t>(wire.token_ids().ids_size()),
                              model, wire.token_ids().ids_size());
    case v1::GenerateRequest::kChat:
      RETURN_IF_ERROR(CheckChat(wire.chat()));
      return CheckTextFitsContext("chat", PrintedBytes(wire.chat()), model);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return FieldFault("prompt", "text, token_ids or chat", "none of them");
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
    return FieldFault("cache.mode",
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
      return FieldFault("cache.mode", "READ_WRITE, READ_ONLY or BYPASS",
                        static_cast<int>(wire.mode()));
  }
  if (wire.has_store_completion() && wire.store_completion() != use.write) {
    if (wire.store_completion()) {
      return FieldFault("cache.store_completion", "false with this cache.mode",
                        "true");
    }
    return absl::UnimplementedError(
        "cache.store_completion: this server does not keep the prompt without "
        "the output yet; cache.mode READ_ONLY keeps neither");
  }
  if (wire.salt().size() > kMaxSaltBytes) {
    return FieldFault("cache.salt",
                      absl::StrCat("at most ", kMaxSaltBytes, " bytes"),
                      wire.salt().size());
  }
  use.salt = wire.salt();
  ASSIGN_OR_RETURN(use.retention, DecodeKeeping(wire));
  return use;
}

// They are for people and the log alone.
absl::Status CheckLabels(const v1::GenerateRequest& wire) {
  if (wire.labels_size() > kMaxLabels) {
    return FieldFault("labels",
                      absl::StrCat("at most ", kMaxLabels, " of them"),
                      wire.labels_size());
  }
  for (const auto& [key, value] : wire.labels()) {
    if (key.empty() || key.size() > kMaxLabelBytes) {
      return FieldFault("labels",
                        absl::StrCat("keys of 1 to ", kMaxLabelBytes, " bytes"),
                        key.size());
    }
    if (value.size() > kMaxLabelBytes) {
      return FieldFault(
          "labels",
          absl::StrCat("values of at most ", kMaxLabelBytes, " bytes"),
          value.size());
    }
  }
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

absl::Status CheckId(std::string_view field, std::string_view id,
                     size_t most_bytes) {
  if (id.empty() || id.size() > most_bytes) {
    return FieldFault(field, absl::StrCat("1 to ", most_bytes, " bytes"),
                      id.size());
  }
  for (size_t i = 0; i < id.size(); ++i) {
    const auto byte = static_cast<unsigned char>(id[i]);
    if (byte > ' ' && byte < 0x7F) continue;
    return FieldFault(field, "visible ASCII",
                      absl::StrCat("byte ", static_cast<int>(byte), " at ", i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChooseRequestId(std::string_view in_message,
                                            std::string_view in_metadata,
                                            std::string_view made) {
  const bool from_message = !in_message.empty();
  const std::string_view id = from_message ? in_message : in_metadata;
  if (id.empty()) return std::string(made);
  RETURN_IF_ERROR(CheckId(from_message ? "request_id" : "metadata x-request-id",
                          id, kMaxRequestIdBytes));
  return std::string(id);
}

absl::Status CheckTextBytes(std::string_view field, size_t bytes) {
  if (bytes <= kMaxPromptBytes) return absl::OkStatus();
  return FieldFault(field, absl::StrCat("at most ", kMaxPromptBytes, " bytes"),
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
    return FieldFault(
        field, absl::StrCat("a time above 0 and at most ", kMaxSeconds, " s"),
        absl::StrCat(wire.seconds(), " s and ", wire.nanos(), " ns"));
  }
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

size_t WorkBytes(const v1::GenerateRequest& wire) {
  if (wire.has_chat()) return WorkBytes(wire.chat());
  return wire.text().size() +
         static_cast<size_t>(wire.token_ids().ids_size()) * sizeof(TokenId);
}

// A text is too long whatever its tokens turn out to be: none stands for more
// bytes than the longest.
absl::Status CheckTextFitsContext(absl::string_view field, size_t bytes,
                                  const ServedModel& model) {
  const size_t least = bytes / std::max<size_t>(1, model.longest_token_bytes);
  return CheckFitsContext(
      field, least, model,
      absl::StrCat("a text of ", bytes, " bytes, at least ", least, " tokens"));
}

absl::StatusOr<TruncatedPrompt> DecodePrompt(const v1::GenerateRequest& wire,
                                             const GenerateCall& call,
                                             const ServedModel& model,
                                             absl::FunctionRef<bool()> ended) {
  const Truncation& truncation = call.truncation;
  const int64_t most =
      MostPromptTokens(truncation, call.request.stopping.max_tokens, model);
  TruncatedPrompt prompt;
  if (wire.has_chat()) {
    if (truncation.most_tokens != 0) {
      ASSIGN_OR_RETURN(prompt, TruncateChat(wire.chat(), most, model, ended));
    } else {
      ASSIGN_OR_RETURN(prompt.ids, EncodeChatPrompt(wire.chat(), model));
    }
    // The engine would say so too, but knows no chats.
    RETURN_IF_ERROR(
        CheckFitsContext("chat", prompt.ids.size(), model, prompt.ids.size()));
    return prompt;
  }
  if (wire.has_token_ids()) {
    ASSIGN_OR_RETURN(prompt.ids,
                     DecodeIds("token_ids.ids", wire.token_ids().ids(),
                               model.info->vocab_size));
  } else {
    prompt.ids = model.tokenizer->Encode(wire.text(), /*add_special=*/true);
  }
  if (truncation.most_tokens == 0) return prompt;
  return TruncateIds(std::move(prompt.ids), most, truncation.from_right,
                     model.tokenizer->bos());
}

absl::StatusOr<GenerateCall> DecodeSettings(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model) {
  RETURN_IF_ERROR(CheckKnownFields(wire));
  const int32_t vocab_size = model.info->vocab_size;
  GenerateCall call;
  call.stream = wire.stream();
  Request& request = call.request;
  request.id = context.request_id;
  RETURN_IF_ERROR(DecodeOutput(wire.output(), vocab_size, call));
  ASSIGN_OR_RETURN(
      request.sampling,
      DecodeSampling(wire.sampling(), context.random_seed, vocab_size));
  ASSIGN_OR_RETURN(request.sequence_count,
                   DecodeSequenceCount(wire.sampling()));
  ASSIGN_OR_RETURN(request.stopping,
                   DecodeStopping(wire.stopping(), vocab_size));
  ASSIGN_OR_RETURN(request.cache, DecodeCache(wire.cache()));
  request.priority = wire.priority();
  request.deadline = context.deadline;
  if (wire.has_max_time()) {
    ASSIGN_OR_RETURN(const absl::Duration max_time,
                     DecodePositiveDuration("max_time", wire.max_time()));
    request.time_limit = context.now + max_time;
  }
  if (wire.has_chat() && call.truncation.from_right) {
    return FieldFault("output.truncate_side",
                      "LEFT for chat, whose oldest turns are left out",
                      "RIGHT");
  }
  RETURN_IF_ERROR(CheckLabels(wire));
  RETURN_IF_ERROR(CheckPromptSize(wire, call.truncation, model));
  return call;
}

absl::StatusOr<GenerateCall> DecodeGenerate(const v1::GenerateRequest& wire,
                                            const CallContext& context,
                                            const ServedModel& model) {
  ASSIGN_OR_RETURN(GenerateCall call, DecodeSettings(wire, context, model));
  ASSIGN_OR_RETURN(TruncatedPrompt prompt, DecodePrompt(wire, call, model));
  call.request.prompt = std::move(prompt.ids);
  call.truncated_tokens = prompt.dropped_tokens;
  return call;
}

}  // namespace kvasir
