#include "server/request_rules.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::HasSubstr;

// The fields whose every value the server understands; request_codec_test.cc
// and the live tests show what each does.
const std::set<std::string>& Honoured() {
  static const auto* const fields =
      new std::set<std::string>{"request_id",
                                "model",
                                "text",
                                "token_ids.ids",
                                "chat.messages.role",
                                "chat.messages.content",
                                "chat.messages.name",
                                "chat.messages.tool_call_id",
                                "chat.messages.tool_calls.id",
                                "chat.messages.tool_calls.name",
                                "chat.messages.tool_calls.arguments",
                                "chat.tools",
                                "chat.template_kwargs",
                                "chat.add_generation_prompt",
                                "chat.continue_final_message",
                                "sampling.temperature",
                                "sampling.top_p",
                                "sampling.min_p",
                                "sampling.typical_p",
                                "sampling.top_k",
                                "sampling.seed",
                                "sampling.frequency_penalty",
                                "sampling.presence_penalty",
                                "sampling.repetition_penalty",
                                "sampling.penalty_window",
                                "sampling.logit_bias",
                                "sampling.allowed_token_ids",
                                "sampling.banned_token_ids",
                                "sampling.n",
                                "stopping.max_tokens",
                                "stopping.min_tokens",
                                "stopping.strings",
                                "stopping.token_ids",
                                "stopping.ignore_eos",
                                "stopping.include_stop",
                                "output.logprobs",
                                "output.prompt_logprobs",
                                "output.prompt_logprob_start",
                                "output.logprob_token_ids",
                                "output.echo",
                                "output.progress",
                                "output.truncate_prompt_tokens",
                                "output.truncate_side",
                                "priority",
                                "output.return_token_ids",
                                "output.return_text",
                                "output.skip_special_tokens",
                                "output.stream_interval",
                                "output.usage_every_chunk",
                                "output.timings",
                                "cache.mode",
                                "cache.salt",
                                "cache.retention",
                                "cache.ttl.seconds",
                                "cache.ttl.nanos",
                                "cache.priority",
                                "cache.store_completion",
                                "cache.version",
                                "stream",
                                "labels",
                                "max_time.seconds",
                                "max_time.nanos"};
  return *fields;
}

// Gives a field a value that is not its default and not neutral.
void SetSomething(Message& message, const FieldDescriptor* field) {
  const auto& reflection = *message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      many ? reflection.AddInt32(&message, field, 7)
           : reflection.SetInt32(&message, field, 7);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection.SetInt64(&message, field, 7);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      many ? reflection.AddUInt32(&message, field, 7)
           : reflection.SetUInt32(&message, field, 7);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      reflection.SetUInt64(&message, field, 7);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      reflection.SetFloat(&message, field, 0.7f);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, field, 0.7);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, field, true);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      many ? reflection.AddString(&message, field, "seven")
           : reflection.SetString(&message, field, "seven");
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int last = field->enum_type()->value_count() - 1;
      reflection.SetEnumValue(&message, field,
                              field->enum_type()->value(last)->number());
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

// Calls `visit(request, path)` once per leaf field, with only that one set.
template <typename Visit>
void ForEachLeaf(const google::protobuf::Descriptor* descriptor,
                 const std::vector<const FieldDescriptor*>& parents,
                 const Visit& visit) {
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    std::vector<const FieldDescriptor*> chain = parents;
    chain.push_back(field);
    const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (message && !field->is_map() &&
        field->message_type()->full_name() != "google.protobuf.Struct") {
      ForEachLeaf(field->message_type(), chain, visit);
      continue;
    }
    v1::GenerateRequest request;
    Message* at = &request;
    std::string path;
    for (const FieldDescriptor* step : chain) {
      absl::StrAppend(&path, path.empty() ? "" : ".", step->name());
      if (step->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        SetSomething(*at, step);
      } else if (step->is_map()) {
        Message* entry = at->GetReflection()->AddMessage(at, step);
        SetSomething(*entry, entry->GetDescriptor()->field(0));
      } else {
        at = step->is_repeated()
                 ? at->GetReflection()->AddMessage(at, step)
                 : at->GetReflection()->MutableMessage(at, step);
        if (auto* fields = dynamic_cast<google::protobuf::Struct*>(at)) {
          (*fields->mutable_fields())["key"].set_bool_value(true);
        }
      }
    }
    visit(request, path);
  }
}

// A field that nobody reads is worse than one that is refused: the client
// believes in a constraint that is not there.
TEST(RequestRulesTest, EveryFieldIsHonouredOrRefusedByName) {
  int refused = 0;
  std::set<std::string> honoured;
  ForEachLeaf(
      v1::GenerateRequest::descriptor(), {},
      [&](const v1::GenerateRequest& request, const std::string& path) {
        const absl::Status status = CheckKnownFields(request);
        if (Honoured().contains(path)) {
          EXPECT_TRUE(status.ok()) << path << ": " << status;
          honoured.insert(path);
          return;
        }
        ++refused;
        EXPECT_TRUE(absl::IsUnimplemented(status)) << path << ": " << status;
        // The name as far as the part that is refused, with indices.
        std::string named(
            status.message().substr(0, status.message().find(": ")));
        named.erase(std::remove_if(named.begin(), named.end(),
                                   [](char c) {
                                     return c == '[' || c == ']' ||
                                            (c >= '0' && c <= '9');
                                   }),
                    named.end());
        EXPECT_TRUE(absl::StartsWith(path, named)) << path << " " << named;
        EXPECT_FALSE(named.empty());
      });
  EXPECT_EQ(honoured, Honoured());
  EXPECT_GT(refused, 15);
}

// Clients that fill in every field with its default must not be turned away.
TEST(RequestRulesTest, NeutralValuesAreWelcome) {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->mutable_template_kwargs();
  request.mutable_chat()->set_continue_final_message(false);
  auto& sampling = *request.mutable_sampling();
  sampling.set_typical_p(1);
  sampling.set_frequency_penalty(0);
  sampling.set_presence_penalty(0);
  sampling.set_repetition_penalty(1);
  sampling.set_penalty_window(0);
  sampling.set_n(1);
  request.mutable_stopping()->set_min_tokens(0);
  request.mutable_constraint();
  request.mutable_cache()->set_retention(v1::RETENTION_NORMAL);
  request.mutable_cache()->set_min_tier(v1::CACHE_TIER_DEVICE);
  request.mutable_extensions();
  EXPECT_TRUE(CheckKnownFields(request).ok()) << CheckKnownFields(request);
}

// A choice of false is a choice: the arm is set.
TEST(RequestRulesTest, ConstraintsAreRefusedWhateverTheirValue) {
  v1::GenerateRequest request;
  request.mutable_constraint()->set_json_object(false);
  EXPECT_THAT(std::string(CheckKnownFields(request).message()),
              HasSubstr("constraint.json_object"));
}

TEST(RequestRulesTest, TokenizeKnowsItsOwnFields) {
  v1::TokenizeRequest request;
  request.set_text("a");
  request.set_add_special_tokens(false);
  request.set_with_offsets(true);
  request.set_with_text(true);
  EXPECT_TRUE(CheckKnownFields(request).ok());
  request.mutable_chat()->add_tools("{}");
  EXPECT_TRUE(CheckKnownFields(request).ok());
}

}  // namespace
}  // namespace kvasir
