#ifndef KVASIR_ENGINE_MODEL_BYTE_PAIR_MERGER_H_
#define KVASIR_ENGINE_MODEL_BYTE_PAIR_MERGER_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// Which neighbouring tokens a vocabulary joins, into what, and how urgently.
// Immutable once filled; then any thread.
class MergeTable {
 public:
  struct Merge {
    int32_t rank;  // lower joins first
    TokenId joined;
  };

  // The token of each single byte, or -1 where the vocabulary has none.
  std::array<TokenId, 256> byte_tokens{};

  // Keeps the first of two merges for the same pair.
  void Add(TokenId left, TokenId right, Merge merge);

  // Null if the two do not join. Valid until the next Add().
  const Merge* Find(TokenId left, TokenId right) const;

 private:
  absl::flat_hash_map<uint64_t, Merge> merges_;  // key: left above right
};

// Turns words into tokens by byte pair encoding: a word starts as one token per
// byte, and the neighbours of lowest rank, the leftmost of equals, join until
// none can. A byte without a token is left out before that, so its neighbours
// may join, as in Hugging Face's library; llama.cpp leaves it out afterwards.
//
// One call's working memory and its output: words and single ids are appended
// in text order, then the ids are taken. One thread.
class BytePairMerger {
 public:
  // `table` outlives this object.
  explicit BytePairMerger(const MergeTable* table) : table_(table) {}

  void AppendWord(std::string_view word);
  void AppendToken(TokenId id) { ids_.push_back(id); }

  // Longest word, in tokens, whose best pair is found by looking at all of
  // them: quick for short words, quadratic. Longer ones keep their pairs in a
  // heap, which takes n log n steps for n bytes. Both give the same ids.
  static constexpr int kMaxScannedTokens = 24;

  // Pairs looked at so far, the measure of the work done.
  int64_t steps() const { return steps_; }

  std::vector<TokenId> TakeIds() { return std::move(ids_); }

 private:
  // A place in a long word's list of tokens. A token that joined the one on its
  // left is gone: it has no rank and nobody's next leads to it.
  struct Node {
    TokenId id;
    int32_t previous;         // -1: none
    int32_t next;             // -1: none
    MergeTable::Merge merge;  // of this token and the next
  };

  void MergeByScan();
  void MergeByHeap();
  // Looks up what joins the token at `place` and the next; true if anything.
  bool UpdateMerge(int32_t place);

  const MergeTable* table_;
  std::vector<TokenId> ids_;
  std::vector<TokenId> word_;  // the current word's tokens
  std::vector<Node> nodes_;
  // Rank above place of each pair that could join when it was pushed; outdated
  // once the place's rank is another. The least comes first.
  std::vector<uint64_t> heap_;
  int64_t steps_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_BYTE_PAIR_MERGER_H_
