#ifndef KVASIR_ENGINE_MODEL_VOCABULARY_H_
#define KVASIR_ENGINE_MODEL_VOCABULARY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "cache/base/strong_id.h"
#include "engine/model/byte_pair_merger.h"
#include "engine/model/special_tokens.h"
#include "engine/model/tokenizer.h"

namespace kvasir {

// Whether a user's text must not become a token of this kind.
bool IsControlKind(TokenizerSpec::Kind kind);

// A TokenizerSpec, checked and indexed for encoding and decoding. Immutable
// once built; any thread.
struct Vocabulary {
  // What each id stands for: a special token's text as it stands, another
  // token's bytes. A token with a character from outside the byte alphabet
  // stands for itself, as in the reference library.
  std::vector<std::string> bytes;

  // Tokens that are found as whole strings before any merge.
  SpecialTokens specials;

  // Has no merge that makes a control token, since text would become one, nor
  // one that makes an unused one.
  MergeTable merges;

  // Ordinary tokens by their bytes, for rules that ignore merges; else empty.
  // The keys lie in `bytes`, whose strings stay put when this object moves.
  absl::flat_hash_map<std::string_view, TokenId> whole_words;
};

// INVALID_ARGUMENT for a malformed specification, with the field as the model
// file names it, what was wanted and what there was: no tokens, too many or too
// long ones, kinds that do not match them, one token twice, merges of or to
// unknown tokens, ids out of range. UNIMPLEMENTED for what is not byte-level
// BPE.
absl::StatusOr<Vocabulary> BuildVocabulary(const TokenizerSpec& spec,
                                           bool ignores_merges);

// SHA-256 over every field of `spec`, lower-case hex.
std::string DigestOf(const TokenizerSpec& spec);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_VOCABULARY_H_
