#ifndef KVASIR_ENGINE_TEMPLATE_SCOPE_H_
#define KVASIR_ENGINE_TEMPLATE_SCOPE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"

#include "engine/template/ast.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// The variables of a block: a template's, a loop's turn, a call of a macro.
// What is set in it does not show outside; what is not set in it is looked up
// outside. One thread.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  void Set(NameId name, Value value) {
    if (Value* old = FindHere(name); old != nullptr) {
      *old = std::move(value);
    } else if (few_.size() < kFew) {
      few_.emplace_back(name, std::move(value));
    } else {
      many_.emplace(name, std::move(value));
    }
  }

  // Null if neither this nor a scope around it has it. Adds the number of
  // scopes it looks into to `looked`.
  const Value* Find(NameId name, int64_t& looked) const {
    for (const Scope* scope = this; scope != nullptr;
         scope = scope->parent_.get()) {
      ++looked;
      if (const Value* value = scope->FindHere(name)) return value;
    }
    return nullptr;
  }

  void Clear() {
    few_.clear();
    many_.clear();
  }

 private:
  // So many variables are found as fast without a table.
  static constexpr size_t kFew = 8;

  const Value* FindHere(NameId name) const {
    for (const auto& [known, value] : few_) {
      if (known == name) return &value;
    }
    if (many_.empty()) return nullptr;
    const auto it = many_.find(name);
    return it == many_.end() ? nullptr : &it->second;
  }
  Value* FindHere(NameId name) {
    return const_cast<Value*>(std::as_const(*this).FindHere(name));
  }

  std::shared_ptr<Scope> parent_;
  absl::InlinedVector<std::pair<NameId, Value>, 4> few_;
  absl::flat_hash_map<NameId, Value> many_;  // all beyond the first few
};

using ScopePtr = std::shared_ptr<Scope>;

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_SCOPE_H_
