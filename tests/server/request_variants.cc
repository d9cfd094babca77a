#include "tests/server/request_variants.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/struct.pb.h"

namespace kvasir {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsOrIsInside(const std::string& path, const std::string& outer) {
  return path == outer || absl::StartsWith(path, absl::StrCat(outer, "."));
}

// Above every limit on the size of a list, below that on the parts of a
// request; and above the latter.
constexpr int kMany = 5000;
constexpr int kTooMany = 70000;
constexpr size_t kLongBytes = 2000;         // above all but a prompt's limit
constexpr size_t kTooLongBytes = 5u << 20;  // and above that

struct Value {
  std::string name;
  std::function<void(Message&, const FieldDescriptor*)> set;
};

// Sets a singular field or adds to a repeated one.
template <typename T, typename Set, typename Add>
Value Scalar(const T& value, std::string name, Set set, Add add) {
  return {std::move(name), [=](Message& message, const FieldDescriptor* field) {
            const Reflection& reflection = *message.GetReflection();
            if (field->is_repeated()) {
              (reflection.*add)(&message, field, value);
            } else {
              (reflection.*set)(&message, field, value);
            }
          }};
}

template <typename T, typename Set, typename Add>
std::vector<Value> Integers(Set set, Add add, std::vector<T> more) {
  std::vector<Value> values;
  more.insert(more.end(), {0, 1, std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max()});
  for (const T value : more) {
    values.push_back(Scalar(value, absl::StrCat(value), set, add));
  }
  return values;
}

template <typename T, typename Set, typename Add>
std::vector<Value> Reals(Set set, Add add) {
  using Limits = std::numeric_limits<T>;
  std::vector<Value> values;
  for (const T value : {T{0}, -T{0}, T{1}, T{-1}, T{0.5}, Limits::denorm_min(),
                        Limits::max(), Limits::lowest(), Limits::infinity(),
                        -Limits::infinity(), Limits::quiet_NaN()}) {
    values.push_back(Scalar(value, absl::StrCat(value), set, add));
  }
  return values;
}

std::vector<Value> Texts() {
  const std::pair<const char*, std::string> texts[] = {
      {"empty", ""},
      {"a letter", "x"},
      {"a word", "assistant"},
      {"a nul", std::string("a\0b", 3)},
      {"a control token", "<|im_end|>"},
      {"an emoji", "\xF0\x9F\x98\x8A"},
      {"no UTF-8", "caf\xC3"},
      {"long", std::string(kLongBytes, 'x')},
      {"too long", std::string(kTooLongBytes, 'x')}};
  std::vector<Value> values;
  for (const auto& [name, text] : texts) {
    values.push_back(
        {name, [text = text](Message& message, const FieldDescriptor* field) {
           const Reflection& reflection = *message.GetReflection();
           if (field->is_repeated()) {
             reflection.AddString(&message, field, text);
           } else {
             reflection.SetString(&message, field, text);
           }
         }});
  }
  return values;
}

std::vector<Value> Names(const FieldDescriptor* field) {
  std::vector<int> numbers = {-1, 99, std::numeric_limits<int>::max()};
  for (int i = 0; i < field->enum_type()->value_count(); ++i) {
    numbers.push_back(field->enum_type()->value(i)->number());
  }
  std::vector<Value> values;
  for (const int number : numbers) {
    values.push_back(Scalar(number, absl::StrCat("enum value ", number),
                            &Reflection::SetEnumValue,
                            &Reflection::AddEnumValue));
  }
  return values;
}

std::vector<Value> ValuesOf(const FieldDescriptor* field) {
  using R = Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Integers<int32_t>(&R::SetInt32, &R::AddInt32, {-1, 2, 1000000000});
    case FieldDescriptor::CPPTYPE_INT64:
      return Integers<int64_t>(&R::SetInt64, &R::AddInt64, {-1, 2});
    case FieldDescriptor::CPPTYPE_UINT32:
      return Integers<uint32_t>(&R::SetUInt32, &R::AddUInt32,
                                {70, 1u << 20, 1u << 31});
    case FieldDescriptor::CPPTYPE_UINT64:
      return Integers<uint64_t>(&R::SetUInt64, &R::AddUInt64, {});
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Reals<float>(&R::SetFloat, &R::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Reals<double>(&R::SetDouble, &R::AddDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return {Scalar(false, "false", &R::SetBool, &R::AddBool),
              Scalar(true, "true", &R::SetBool, &R::AddBool)};
    case FieldDescriptor::CPPTYPE_STRING:
      return Texts();
    case FieldDescriptor::CPPTYPE_ENUM:
      return Names(field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {};
  }
  return {};
}

// One that is legal nearly everywhere: a letter, a small number.
Value Ordinary(const FieldDescriptor* field) {
  const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return ValuesOf(field)[text ? 1 : 0];
}

// Fields, or messages with all that is in them.
const std::set<std::string>& NotYet() {
  static const auto* const paths = new std::set<std::string>{
      "chat.tools", "chat.template_kwargs", "chat.continue_final_message",
      "chat.messages.name", "chat.messages.tool_call_id",
      "chat.messages.tool_calls", "stopping.regexes", "constraint", "adapter",
      "labels", "extensions", "cache.key", "cache.session_id",
      "cache.breakpoints", "cache.min_tier", "cache.max_load_time",
      // Single values of fields that are there.
      "cache.retention", "cache.store_completion"};
  return *paths;
}

class Walk {
 public:
  Walk(const v1::GenerateRequest& base, const PrepareRequest& prepare,
       const std::function<void(const RequestVariant&)>& visit)
      : base_(base), prepare_(prepare), visit_(visit) {}

  void Fields(const Descriptor* type) {
    for (int i = 0; i < type->field_count(); ++i) {
      chain_.push_back(type->field(i));
      Field(type->field(i));
      chain_.pop_back();
    }
  }

 private:
  void Field(const FieldDescriptor* field) {
    if (field->is_map()) return Map(field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      // There, and empty.
      Visit("an empty message", [](Message& message) {});
      if (field->is_repeated()) {
        Repeat(field, "empty messages", [](Message&) {});
      }
      if (field->message_type() == google::protobuf::Struct::descriptor()) {
        return Visit("a member", [](Message& message) {
          auto& members = dynamic_cast<google::protobuf::Struct&>(message);
          (*members.mutable_fields())["key"].set_number_value(1);
        });
      }
      return Fields(field->message_type());
    }
    for (const Value& value : ValuesOf(field)) {
      Visit(value.name, [&](Message& holder) { value.set(holder, field); });
    }
    if (!field->is_repeated()) return;
    const Value ordinary = Ordinary(field);
    for (const int count : {kMany, kTooMany}) {
      Visit(absl::StrCat(count, " times ", ordinary.name),
            [&](Message& holder) {
              for (int i = 0; i < count; ++i) ordinary.set(holder, field);
            });
    }
  }

  template <typename Fill>
  void Repeat(const FieldDescriptor* field, const char* what, Fill fill) {
    for (const int count : {kMany, kTooMany}) {
      VisitHolder(absl::StrCat(count, " ", what), [&](Message& holder) {
        for (int i = 0; i < count; ++i) {
          fill(*holder.GetReflection()->AddMessage(&holder, field));
        }
      });
    }
  }

  void Map(const FieldDescriptor* field) {
    const Descriptor* entry = field->message_type();
    const FieldDescriptor* key = entry->map_key();
    const FieldDescriptor* content = entry->map_value();
    const Value some_key = Ordinary(key);
    const Value some_value = Ordinary(content);
    for (const Value& value : ValuesOf(key)) {
      Visit(absl::StrCat("key ", value.name), [&](Message& message) {
        value.set(message, key);
        some_value.set(message, content);
      });
    }
    for (const Value& value : ValuesOf(content)) {
      Visit(absl::StrCat("value ", value.name), [&](Message& message) {
        some_key.set(message, key);
        value.set(message, content);
      });
    }
    int next = 0;
    Repeat(field, "entries", [&](Message& message) {
      const Reflection& reflection = *message.GetReflection();
      ++next;
      if (key->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        reflection.SetString(&message, key, absl::StrCat(next));
      } else {
        reflection.SetUInt32(&message, key, static_cast<uint32_t>(next));
      }
      some_value.set(message, content);
    });
  }

  // `fill` gets the message that holds the field, or that the field is.
  template <typename Fill>
  void Visit(const std::string& value, Fill fill) {
    Make(value, /*into_last=*/true, fill);
  }
  template <typename Fill>
  void VisitHolder(const std::string& value, Fill fill) {
    Make(value, /*into_last=*/false, fill);
  }

  template <typename Fill>
  void Make(const std::string& value, bool into_last, Fill fill) {
    RequestVariant variant = {
        .value = value,
        .empty = absl::StrContains(value, "empty message"),
        .request = base_};
    for (const FieldDescriptor* field : chain_) {
      absl::StrAppend(&variant.path, variant.path.empty() ? "" : ".",
                      field->name());
    }
    prepare_(variant.path, variant.request);
    Message* at = &variant.request;
    for (const FieldDescriptor* field : chain_) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) break;
      if (field == chain_.back() && !into_last) break;
      at = Enter(*at, field);
    }
    fill(*at);
    visit_(variant);
  }

  // The first element of what is prepared, or else a new one.
  static Message* Enter(Message& message, const FieldDescriptor* field) {
    const Reflection& reflection = *message.GetReflection();
    if (!field->is_repeated()) {
      return reflection.MutableMessage(&message, field);
    }
    if (field->is_map() || reflection.FieldSize(message, field) == 0) {
      return reflection.AddMessage(&message, field);
    }
    return reflection.MutableRepeatedMessage(&message, field, 0);
  }

  const v1::GenerateRequest& base_;
  const PrepareRequest& prepare_;
  const std::function<void(const RequestVariant&)>& visit_;
  std::vector<const FieldDescriptor*> chain_;
};

}  // namespace

bool IsNotThereYet(const std::string& path) {
  return std::any_of(
      NotYet().begin(), NotYet().end(),
      [&](const std::string& outer) { return IsOrIsInside(path, outer); });
}

void PrepareVariant(const std::string& path, v1::GenerateRequest& request) {
  if (absl::StartsWith(path, "chat")) {
    auto& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("x");
  } else if (path == "output.logprob_token_ids") {
    request.mutable_output()->set_logprobs(1);
  } else if (path == "output.prompt_logprob_start") {
    request.mutable_output()->set_prompt_logprobs(1);
  } else if (path == "output.truncate_side") {
    request.mutable_output()->set_truncate_prompt_tokens(4);
  }
}

void ForEachVariant(const v1::GenerateRequest& base,
                    const PrepareRequest& prepare,
                    const std::function<void(const RequestVariant&)>& visit) {
  Walk(base, prepare, visit).Fields(v1::GenerateRequest::descriptor());
}

}  // namespace kvasir
