#ifndef KVASIR_ENGINE_TEMPLATE_FILTERS_H_
#define KVASIR_ENGINE_TEMPLATE_FILTERS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// The filters and tests of jinja2 3.1, but for those that make markup for
// browsers (urlize, xmlattr), differ from run to run (random) or are for people
// (pprint, filesizeformat, wordwrap).
//
// Null for an unknown one. A test gives a bool.
NativeFunction FindFilter(std::string_view name);
NativeFunction FindTest(std::string_view name);

// Filters by subject; FindFilter() asks them all.
FunctionTable TextFilters();
FunctionTable ListFilters();
FunctionTable SelectFilters();
FunctionTable ValueFilters();
FunctionTable Tests();

// A filter that gives a generator, whose errors wait until that is used.
template <NativeFunction kFilter>
absl::StatusOr<Value> Lazy(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  absl::StatusOr<Value> out = kFilter(runtime, self, arguments);
  if (!absl::IsInvalidArgument(out.status())) return out;
  return MakeFaultyGenerator(runtime, std::move(out).status());
}

// The `attribute` argument of a filter: a name, names joined by dots, or an
// index. Without one the item itself is meant.
class AttributeGetter {
 public:
  // `attribute` may be null.
  static absl::StatusOr<AttributeGetter> Create(Runtime& runtime,
                                                const Value* attribute);
  // `otherwise`, if it is not null, stands for what is undefined on the way.
  absl::StatusOr<Value> Get(Runtime& runtime, const Value& item,
                            const Value* otherwise = nullptr) const;

 private:
  ValueList path_;
};

// What items are ordered and compared by unless case matters: texts in lower
// case.
absl::StatusOr<Value> FoldCase(Runtime& runtime, const Value& value);

// The items of a dict as the filter dictsort gives them, by their keys.
absl::StatusOr<Dict::Items> SortedItems(Runtime& runtime, const Dict& dict);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_FILTERS_H_
