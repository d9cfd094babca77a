// Filters of lists and dicts that order them, cut them and put them together.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/arithmetic.h"
#include "engine/template/filters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

absl::StatusOr<Value> Length(Runtime&, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  const std::optional<int64_t> length = LengthOf(self);
  if (!length.has_value()) return TypeFault("it has no length", self);
  return Value::Int(*length);
}

absl::StatusOr<Value> First(Runtime& runtime, const Value& self,
                            const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  std::optional<Value> first;
  if (const auto generator = self.AsObject<Generator>()) {
    ASSIGN_OR_RETURN(first, generator->Next());
  } else if (self.is_string() && !self.AsText().empty()) {
    return CharacterOf(runtime, self.AsText(), 0);
  } else if (self.is_sequence() && !self.AsSequence().items.empty()) {
    first = self.AsSequence().items[0];
  } else if (self.is_dict() && self.AsDict().size() > 0) {
    first = self.AsDict().items()[0].first;
  } else {
    RETURN_IF_ERROR(Iterate(runtime, self).status());
  }
  if (first.has_value()) return *std::move(first);
  return MakeUndefined(runtime, "No first item, sequence was empty.");
}

absl::StatusOr<Value> Last(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  const std::optional<int64_t> length = LengthOf(self);
  if (!length.has_value()) return TypeFault("it has no last item", self);
  if (*length == 0) {
    return MakeUndefined(runtime, "No last item, sequence was empty.");
  }
  if (self.is_dict()) return self.AsDict().items().back().first;
  if (self.is_sequence()) return self.AsSequence().items.back();
  return CharacterOf(runtime, self.AsText(), static_cast<size_t>(*length - 1));
}

absl::StatusOr<Value> ToList(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(ValueList items, Iterate(runtime, self));
  return MakeList(runtime, std::move(items));
}

absl::StatusOr<Value> Reverse(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (self.is_string()) {
    return GetSlice(runtime, self, Value::None(), Value::None(),
                    Value::Int(-1));
  }
  ASSIGN_OR_RETURN(ValueList items, Iterate(runtime, self));
  std::reverse(items.begin(), items.end());
  if (self.AsObject<Generator>() != nullptr) {
    return MakeList(runtime, std::move(items));
  }
  return MakeGenerator(runtime, std::move(items));
}

absl::StatusOr<Value> JoinFilter(Runtime& runtime, const Value& self,
                                 const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"d", "attribute"}));
  ASSIGN_OR_RETURN(const Text separator, TextOr(runtime, bound[0], ""));
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[1]));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  RETURN_IF_ERROR(runtime.budget.Produce(sizeof(Text)));
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      RETURN_IF_ERROR(runtime.budget.Produce(separator.MemoryBytes()));
      out.Append(separator);
    }
    ASSIGN_OR_RETURN(const Value item, getter.Get(runtime, items[i]));
    RETURN_IF_ERROR(AppendStr(runtime, item, out));
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Batch(Runtime& runtime, const Value& self,
                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"linecount", "fill_with"}));
  RETURN_IF_ERROR(Need(bound[0], "linecount"));
  ASSIGN_OR_RETURN(const int64_t count, IntOr(bound[0], 0));
  if (count < 1 || count > static_cast<int64_t>(kMaxItems)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wanted a linecount of 1 to ", kMaxItems, "; found ", count));
  }
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  const auto size = static_cast<size_t>(count);
  ValueList batches;
  for (size_t at = 0; at < items.size(); at += size) {
    const size_t end = std::min(items.size(), at + size);
    ValueList batch(items.begin() + static_cast<ptrdiff_t>(at),
                    items.begin() + static_cast<ptrdiff_t>(end));
    const bool fills = bound[1] != nullptr && !bound[1]->is_none();
    if (fills) {
      RETURN_IF_ERROR(runtime.budget.Scan(size * sizeof(Value)));
      batch.resize(size, *bound[1]);
    }
    ASSIGN_OR_RETURN(Value list, MakeList(runtime, std::move(batch)));
    batches.push_back(std::move(list));
  }
  return MakeGenerator(runtime, std::move(batches));
}

absl::StatusOr<Value> SliceFilter(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"slices", "fill_with"}));
  RETURN_IF_ERROR(Need(bound[0], "slices"));
  ASSIGN_OR_RETURN(const int64_t count, IntOr(bound[0], 0));
  if (count < 1 || count > static_cast<int64_t>(kMaxItems)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted 1 to ", kMaxItems, " slices; found ", count));
  }
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  const auto slices = static_cast<size_t>(count);
  const size_t per_slice = items.size() / slices;
  const size_t longer = items.size() % slices;
  ValueList out;
  size_t at = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t size = per_slice + (i < longer ? 1 : 0);
    ValueList slice(items.begin() + static_cast<ptrdiff_t>(at),
                    items.begin() + static_cast<ptrdiff_t>(at + size));
    at += size;
    const bool fills = bound[1] != nullptr && !bound[1]->is_none();
    if (fills && i >= longer) slice.push_back(*bound[1]);
    ASSIGN_OR_RETURN(Value list, MakeList(runtime, std::move(slice)));
    out.push_back(std::move(list));
  }
  return MakeGenerator(runtime, std::move(out));
}

// Items with what they are ordered by.
struct Keyed {
  ValueList keys;
  Value item;
  bool in_list = false;
};

// Several keys are compared as Python's lists are, one as it is: values that
// have no order may still be equal in a list.
absl::StatusOr<bool> Before(Runtime& runtime, const Keyed& a, const Keyed& b) {
  if (!a.in_list) return Less(runtime, a.keys[0], b.keys[0]);
  for (size_t i = 0; i < a.keys.size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, a.keys[i], b.keys[i]));
    if (!same) return Less(runtime, a.keys[i], b.keys[i]);
  }
  return false;
}

// Stable, and by merging, since comparisons may fail half-way.
absl::Status SortKeyed(Runtime& runtime, std::vector<Keyed>& all,
                       bool reverse) {
  RETURN_IF_ERROR(runtime.budget.Produce(all.size() * sizeof(Keyed)));
  std::vector<Keyed> spare(all.size());
  for (size_t width = 1; width < all.size(); width *= 2) {
    RETURN_IF_ERROR(runtime.budget.Scan(all.size() * sizeof(Keyed)));
    for (size_t from = 0; from < all.size(); from += 2 * width) {
      const size_t middle = std::min(from + width, all.size());
      const size_t end = std::min(from + 2 * width, all.size());
      size_t left = from;
      size_t right = middle;
      for (size_t to = from; to < end; ++to) {
        bool take_right = left == middle;
        if (!take_right && right < end) {
          ASSIGN_OR_RETURN(take_right,
                           reverse ? Before(runtime, all[left], all[right])
                                   : Before(runtime, all[right], all[left]));
        }
        spare[to] = std::move(all[take_right ? right++ : left++]);
      }
    }
    all.swap(spare);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Folded(Runtime& runtime, const Value& value,
                             bool case_sensitive) {
  if (case_sensitive) return value;
  return FoldCase(runtime, value);
}

// Adds an item, ordered by one key; the caller may add more keys.
absl::Status AddKeyed(Runtime& runtime, const Value& key, bool exact,
                      Value item, std::vector<Keyed>& all) {
  RETURN_IF_ERROR(runtime.budget.Produce(sizeof(Keyed) + 2 * sizeof(Value)));
  ASSIGN_OR_RETURN(Value folded, Folded(runtime, key, exact));
  all.push_back({{std::move(folded)}, std::move(item)});
  return absl::OkStatus();
}

absl::StatusOr<Value> SortedList(Runtime& runtime, std::vector<Keyed> all,
                                 bool reverse) {
  RETURN_IF_ERROR(SortKeyed(runtime, all, reverse));
  ValueList sorted;
  for (Keyed& one : all) sorted.push_back(std::move(one.item));
  return MakeList(runtime, std::move(sorted));
}

absl::StatusOr<Value> Sort(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"reverse", "case_sensitive", "attribute"}));
  const bool exact = TruthOr(bound[1], false);
  std::vector<AttributeGetter> getters;
  if (bound[2] != nullptr && bound[2]->is_string()) {
    ASSIGN_OR_RETURN(const auto names,
                     Split(runtime.budget, bound[2]->AsText(), ",", -1, false));
    for (const Text& name : names) {
      const Value attribute = Value::String(name);
      ASSIGN_OR_RETURN(AttributeGetter getter,
                       AttributeGetter::Create(runtime, &attribute));
      getters.push_back(std::move(getter));
    }
  } else {
    ASSIGN_OR_RETURN(AttributeGetter getter,
                     AttributeGetter::Create(runtime, bound[2]));
    getters.push_back(std::move(getter));
  }
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  std::vector<Keyed> all;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value first, getters[0].Get(runtime, item));
    RETURN_IF_ERROR(AddKeyed(runtime, first, exact, item, all));
    all.back().in_list = true;
    for (size_t i = 1; i < getters.size(); ++i) {
      RETURN_IF_ERROR(runtime.budget.Produce(sizeof(Value)));
      ASSIGN_OR_RETURN(const Value key, getters[i].Get(runtime, item));
      ASSIGN_OR_RETURN(Value folded, Folded(runtime, key, exact));
      all.back().keys.push_back(std::move(folded));
    }
  }
  return SortedList(runtime, std::move(all), TruthOr(bound[0], false));
}

absl::StatusOr<Value> DictSort(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"case_sensitive", "by", "reverse"}));
  const bool exact = TruthOr(bound[0], false);
  ASSIGN_OR_RETURN(const std::string_view by, BytesOr(bound[1], "key"));
  if (by != "key" && by != "value") {
    return absl::InvalidArgumentError(
        "You can only sort by either \"key\" or \"value\"");
  }
  if (!self.is_dict()) return TypeFault("wanted a dict", self);
  std::vector<Keyed> all;
  for (const auto& [key, value] : self.AsDict().items()) {
    ASSIGN_OR_RETURN(Value pair, MakeTuple(runtime, {key, value}));
    RETURN_IF_ERROR(AddKeyed(runtime, by == "key" ? key : value, exact,
                             std::move(pair), all));
  }
  return SortedList(runtime, std::move(all), TruthOr(bound[2], false));
}

absl::StatusOr<Value> Unique(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"case_sensitive", "attribute"}));
  const bool exact = TruthOr(bound[0], false);
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[1]));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  absl::flat_hash_set<std::string> seen;
  ValueList kept;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value key, getter.Get(runtime, item));
    ASSIGN_OR_RETURN(const Value folded, Folded(runtime, key, exact));
    ASSIGN_OR_RETURN(std::string name, KeyOf(runtime, folded));
    RETURN_IF_ERROR(
        runtime.budget.Produce(sizeof(std::string) + sizeof(Value)));
    if (seen.insert(std::move(name)).second) kept.push_back(item);
  }
  return MakeGenerator(runtime, std::move(kept));
}

absl::StatusOr<Value> GroupBy(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"attribute", "default", "case_sensitive"}));
  RETURN_IF_ERROR(Need(bound[0], "attribute"));
  const bool exact = TruthOr(bound[2], false);
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[0]));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  std::vector<Keyed> all;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value key, getter.Get(runtime, item, bound[1]));
    RETURN_IF_ERROR(AddKeyed(runtime, key, exact, item, all));
  }
  RETURN_IF_ERROR(SortKeyed(runtime, all, /*reverse=*/false));
  ValueList groups;
  for (size_t from = 0; from < all.size();) {
    ValueList members;
    size_t end = from;
    bool same = true;
    while (end < all.size() && same) {
      ASSIGN_OR_RETURN(same,
                       Equals(runtime, all[from].keys[0], all[end].keys[0]));
      if (same) members.push_back(all[end++].item);
    }
    // The name is the first member's own, whatever its case.
    ASSIGN_OR_RETURN(Value name, getter.Get(runtime, members[0], bound[1]));
    ASSIGN_OR_RETURN(Value list, MakeList(runtime, std::move(members)));
    ASSIGN_OR_RETURN(Value group,
                     MakeSequence(runtime, Sequence::Kind::kGroup,
                                  {std::move(name), std::move(list)}));
    groups.push_back(std::move(group));
    from = end;
  }
  return MakeList(runtime, std::move(groups));
}

template <bool kMax>
absl::StatusOr<Value> Extreme(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"case_sensitive", "attribute"}));
  const bool exact = TruthOr(bound[0], false);
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[1]));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  if (items.empty()) {
    return MakeUndefined(runtime, "No aggregated item, sequence was empty.");
  }
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, getter.Get(runtime, items[i]));
    ASSIGN_OR_RETURN(key, Folded(runtime, key, exact));
    bool better = i == 0;
    if (!better) {
      ASSIGN_OR_RETURN(better, kMax ? Less(runtime, best_key, key)
                                    : Less(runtime, key, best_key));
    }
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

absl::StatusOr<Value> Sum(Runtime& runtime, const Value& self,
                          const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"attribute", "start"}));
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[0]));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  Value sum = bound[1] == nullptr ? Value::Int(0) : *bound[1];
  if (sum.is_string()) return TypeFault("it can't sum strings", sum);
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value term, getter.Get(runtime, item));
    ASSIGN_OR_RETURN(
        sum, Calculate(runtime, BinaryOperator::kAdd, std::move(sum), term));
  }
  return sum;
}

absl::StatusOr<Value> ItemsFilter(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ValueList pairs;
  if (!self.is_undefined()) {
    if (!self.is_dict()) return TypeFault("wanted a mapping", self);
    for (const auto& [key, value] : self.AsDict().items()) {
      ASSIGN_OR_RETURN(Value pair, MakeTuple(runtime, {key, value}));
      pairs.push_back(std::move(pair));
    }
  }
  return MakeGenerator(runtime, std::move(pairs));
}

constexpr NamedFunction kFilters[] = {
    {"batch", Lazy<Batch>},   {"count", Length},
    {"dictsort", DictSort},   {"first", First},
    {"groupby", GroupBy},     {"items", Lazy<ItemsFilter>},
    {"join", JoinFilter},     {"last", Last},
    {"length", Length},       {"list", ToList},
    {"max", Extreme<true>},   {"min", Extreme<false>},
    {"reverse", Reverse},     {"slice", Lazy<SliceFilter>},
    {"sort", Sort},           {"sum", Sum},
    {"unique", Lazy<Unique>},
};

}  // namespace

absl::StatusOr<Dict::Items> SortedItems(Runtime& runtime, const Dict& dict) {
  std::vector<Keyed> all;
  for (const auto& item : dict.items()) {
    RETURN_IF_ERROR(
        AddKeyed(runtime, item.first, /*exact=*/true, item.second, all));
  }
  RETURN_IF_ERROR(SortKeyed(runtime, all, /*reverse=*/false));
  Dict::Items sorted;
  for (Keyed& one : all) {
    sorted.emplace_back(std::move(one.keys[0]), std::move(one.item));
  }
  return sorted;
}

FunctionTable ListFilters() { return kFilters; }

}  // namespace kvasir::jinja
