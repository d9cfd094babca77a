#include "server/request_rules.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

enum class Kind : uint8_t {
  kHonoured,
  kInside,   // a message whose fields have rules of their own
  kNeutral,  // refused unless it equals `neutral`
  kEmpty,    // a message that is refused unless it is empty
};

struct Rule {
  const char* path;
  Kind kind = Kind::kHonoured;
  double neutral = 0;
};

// Paths are below the request, without the indices of repeated messages. What
// is missing here is refused whenever it is set.
constexpr Rule kRules[] = {
    {"request_id"},
    {"model"},
    {"text"},
    {"token_ids"},
    {"chat", Kind::kInside},
    {"chat.messages", Kind::kInside},
    {"chat.messages.role"},
    {"chat.messages.content"},
    {"chat.messages.name"},
    {"chat.messages.tool_call_id"},
    {"chat.messages.tool_calls", Kind::kInside},
    {"chat.messages.tool_calls.id"},
    {"chat.messages.tool_calls.name"},
    {"chat.messages.tool_calls.arguments"},
    {"chat.tools"},
    {"chat.template_kwargs"},
    {"chat.add_generation_prompt"},
    {"chat.continue_final_message"},
    {"sampling", Kind::kInside},
    {"sampling.temperature"},
    {"sampling.top_p"},
    {"sampling.min_p"},
    {"sampling.typical_p"},
    {"sampling.top_k"},
    {"sampling.seed"},
    {"sampling.frequency_penalty"},
    {"sampling.presence_penalty"},
    {"sampling.repetition_penalty"},
    {"sampling.penalty_window"},
    {"sampling.logit_bias"},
    {"sampling.allowed_token_ids"},
    {"sampling.banned_token_ids"},
    {"sampling.n"},
    {"stopping", Kind::kInside},
    {"stopping.max_tokens"},
    {"stopping.min_tokens"},
    {"stopping.strings"},
    {"stopping.token_ids"},
    {"stopping.ignore_eos"},
    {"stopping.include_stop"},
    {"output", Kind::kInside},
    {"output.logprobs"},
    {"output.prompt_logprobs"},
    {"output.prompt_logprob_start"},
    {"output.logprob_token_ids"},
    {"output.echo"},
    {"output.return_token_ids"},
    {"output.return_text"},
    {"output.skip_special_tokens"},
    {"output.stream_interval"},
    {"output.usage_every_chunk"},
    {"output.timings"},
    {"output.progress"},
    {"output.truncate_prompt_tokens"},
    {"output.truncate_side"},
    {"constraint", Kind::kInside},
    {"cache", Kind::kInside},
    {"cache.mode"},
    {"cache.salt"},
    {"cache.retention"},
    {"cache.ttl"},
    {"cache.priority"},
    {"cache.store_completion"},
    {"cache.version"},
    {"cache.min_tier", Kind::kNeutral, v1::CACHE_TIER_DEVICE},
    {"priority"},
    {"stream"},
    {"max_time"},
    {"labels"},
    {"extensions", Kind::kEmpty},
    // TokenizeRequest's own.
    {"add_special_tokens"},
    {"with_offsets"},
    {"with_text"},
};

const Rule* FindRule(const std::string& path) {
  static const auto* const rules = [] {
    auto* map = new absl::flat_hash_map<std::string, const Rule*>;
    for (const Rule& rule : kRules) map->emplace(rule.path, &rule);
    return map;
  }();
  const auto it = rules->find(path);
  return it == rules->end() ? nullptr : it->second;
}

// A singular field's value as a number, if it is one.
std::optional<double> NumberOf(const Message& message,
                               const FieldDescriptor* field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnumValue(message, field);
    default:
      return std::nullopt;
  }
}

// Where in the request the walk is: `path` for people, with indices, and `rule`
// for the table, without.
struct Place {
  std::string path;
  std::string rule;

  Place Inside(const std::string& name) const {
    return {absl::StrCat(path, path.empty() ? "" : ".", name),
            absl::StrCat(rule, rule.empty() ? "" : ".", name)};
  }
};

absl::Status Refuse(const Place& place) {
  return absl::UnimplementedError(
      absl::StrCat(place.path, ": this server does not have it yet"));
}

absl::Status Walk(const Message& message, const Place& place);

absl::Status CheckInside(const Message& message, const FieldDescriptor* field,
                         const Place& place) {
  const Reflection& reflection = *message.GetReflection();
  if (!field->is_repeated()) {
    return Walk(reflection.GetMessage(message, field), place);
  }
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    Place element = place;
    absl::StrAppend(&element.path, "[", i, "]");
    RETURN_IF_ERROR(
        Walk(reflection.GetRepeatedMessage(message, field, i), element));
  }
  return absl::OkStatus();
}

absl::Status CheckField(const Message& message, const FieldDescriptor* field,
                        const Place& place) {
  const Rule* rule = FindRule(place.rule);
  if (rule == nullptr) return Refuse(place);
  switch (rule->kind) {
    case Kind::kHonoured:
      return absl::OkStatus();
    case Kind::kInside:
      return CheckInside(message, field, place);
    case Kind::kNeutral:
      if (NumberOf(message, field) == rule->neutral) return absl::OkStatus();
      return Refuse(place);
    case Kind::kEmpty:
      if (message.GetReflection()->GetMessage(message, field).ByteSizeLong() ==
          0) {
        return absl::OkStatus();
      }
      return Refuse(place);
  }
  return Refuse(place);
}

absl::Status Walk(const Message& message, const Place& place) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    RETURN_IF_ERROR(CheckField(message, field, place.Inside(field->name())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKnownFields(const v1::GenerateRequest& request) {
  return Walk(request, {});
}

absl::Status CheckKnownFields(const v1::TokenizeRequest& request) {
  return Walk(request, {});
}

}  // namespace kvasir
