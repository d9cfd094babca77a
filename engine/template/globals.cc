#include "engine/template/globals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/callables.h"
#include "engine/template/characters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

absl::StatusOr<Value> Range(Runtime& runtime, const Value&,
                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"start", "stop", "step"}));
  RETURN_IF_ERROR(Need(bound[0], "stop"));
  const bool has_start = bound[1] != nullptr;
  ASSIGN_OR_RETURN(const int64_t start,
                   IntOr(has_start ? bound[0] : nullptr, 0));
  ASSIGN_OR_RETURN(const int64_t stop, IntOr(bound[has_start ? 1 : 0], 0));
  ASSIGN_OR_RETURN(const int64_t step, IntOr(bound[2], 1));
  if (step == 0) {
    return absl::InvalidArgumentError("range() arg 3 must not be zero");
  }
  ValueList items;
  int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<int64_t>(items.size()) == kMaxRangeItems) {
      return absl::ResourceExhaustedError(
          absl::StrCat("wanted a range of at most ", kMaxRangeItems,
                       " items (kMaxRangeItems); found more"));
    }
    RETURN_IF_ERROR(runtime.budget.Scan(sizeof(Value)));
    items.push_back(Value::Int(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return MakeRange(runtime, {start, stop, step}, std::move(items));
}

// What dict() and namespace() take: a dict or pairs, and keywords.
absl::StatusOr<Dict> DictOf(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at most 1 positional argument; found ",
                     arguments.positional.size()));
  }
  Dict dict;
  for (const Value& all : arguments.positional) {
    ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, all));
    for (const Value& item : items) {
      if (all.is_dict()) {
        ASSIGN_OR_RETURN(const Value* const value,
                         FindKey(runtime, all.AsDict(), item));
        RETURN_IF_ERROR(SetItem(runtime, dict, item, *value));
        continue;
      }
      ASSIGN_OR_RETURN(const ValueList pair, Iterate(runtime, item));
      if (pair.size() != 2) return TypeFault("wanted pairs", item);
      RETURN_IF_ERROR(SetItem(runtime, dict, pair[0], pair[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    RETURN_IF_ERROR(runtime.budget.Produce(name.size()));
    dict.Set(name, value);
  }
  return dict;
}

absl::StatusOr<Value> MakeDictGlobal(Runtime& runtime, const Value&,
                                     const Arguments& arguments) {
  ASSIGN_OR_RETURN(Dict dict, DictOf(runtime, arguments));
  return MakeDict(runtime, std::move(dict));
}

absl::StatusOr<Value> MakeNamespace(Runtime& runtime, const Value&,
                                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Dict dict, DictOf(runtime, arguments));
  RETURN_IF_ERROR(MakeDict(runtime, dict).status());  // charges it
  auto space = std::make_shared<Namespace>();
  for (const auto& [key, value] : dict.items()) {
    if (!key.is_string()) return TypeFault("wanted names", key);
    space->Set(key.AsView(), value);
  }
  runtime.changing.push_back(space);
  return Value::FromObject(std::move(space));
}

absl::StatusOr<Value> MakeCycler(Runtime& runtime, const Value&,
                                 const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return absl::InvalidArgumentError("cycler: wanted items; found none");
  }
  return MakeObject(
      runtime, sizeof(Cycler) + arguments.positional.size() * sizeof(Value),
      std::make_shared<Cycler>(arguments.positional));
}

absl::StatusOr<Value> MakeJoiner(Runtime& runtime, const Value&,
                                 const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sep"}));
  return MakeObject(
      runtime, sizeof(Joiner),
      std::make_shared<Joiner>(bound[0] == nullptr
                                   ? Value::String(", ", /*trusted=*/true)
                                   : *bound[0]));
}

absl::StatusOr<Value> RaiseException(Runtime& runtime, const Value&,
                                     const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"message"}));
  RETURN_IF_ERROR(Need(bound[0], "message"));
  ASSIGN_OR_RETURN(const Text message, Str(runtime, *bound[0]));
  const std::string_view shown = message.view().substr(0, kMaxRaisedBytes);
  return absl::InvalidArgumentError(MendUtf8(shown));
}

absl::StatusOr<Value> StrftimeNow(Runtime& runtime, const Value&,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"format"}));
  RETURN_IF_ERROR(Need(bound[0], "format"));
  ASSIGN_OR_RETURN(const std::string_view format, BytesOr(bound[0], ""));
  ASSIGN_OR_RETURN(std::string text,
                   FormatTime(runtime.budget, format, runtime.now));
  return MakeText(runtime, Text(std::move(text), /*trusted=*/false));
}

constexpr NamedFunction kGlobals[] = {
    {"cycler", MakeCycler},
    {"dict", MakeDictGlobal},
    {"joiner", MakeJoiner},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"range", Range},
    {"strftime_now", StrftimeNow},
};

}  // namespace

FunctionTable Globals() { return kGlobals; }

}  // namespace kvasir::jinja
