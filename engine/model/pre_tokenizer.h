#ifndef KVASIR_ENGINE_MODEL_PRE_TOKENIZER_H_
#define KVASIR_ENGINE_MODEL_PRE_TOKENIZER_H_

#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace kvasir {

// The rules that a tokenizer.ggml.pre name stands for.
struct PreTokenizerRules {
  std::string_view name;
  std::string_view pattern;  // PCRE2; matches at every character of any text

  // A piece that is itself a token becomes that token, whatever its merges say.
  bool ignores_merges;
  // Whether a file that does not say so wants a BOS token in front.
  bool adds_bos_by_default;
};

// UNIMPLEMENTED for a name without rules, with the names that have some.
absl::StatusOr<const PreTokenizerRules*> FindPreTokenizerRules(
    std::string_view name);

// Cuts text into the pieces that byte pair merges never cross: words, numbers,
// punctuation, runs of white space. Immutable after Create(); any thread.
//
// Patterns run in PCRE2, compiled to machine code where the system allows that
// and interpreted elsewhere, with the same result. `\s` is written as
// \p{White_Space}, which is what the reference libraries mean by it; PCRE2's
// own \s also takes U+180E.
//
// Linear in the text's length: every alternative of every pattern is a
// few repeated character classes without nesting, a failed one has looked at
// most at the run of like characters ahead of it, and a run gives at most three
// pieces except for digits, whose pieces look at three characters. No recursion
// on the C++ stack, and no limit on matching that a long text could meet.
class PreTokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(
      const PreTokenizerRules& rules);
  ~PreTokenizer();

  // Calls `take` with every piece in order; together they are `text`. Bytes
  // that are not well-formed UTF-8 are pieces of one byte each, and what lies
  // between them is cut as texts of their own.
  void Split(std::string_view text,
             absl::FunctionRef<void(std::string_view)> take) const;

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_PRE_TOKENIZER_H_
