#ifndef KVASIR_ENGINE_MODEL_SPECIAL_TOKENS_H_
#define KVASIR_ENGINE_MODEL_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// Finds the tokens that are whole strings in the text rather than made by
// merges. A trie, so that the time does not depend on how many there are.
// Immutable once filled; then any thread.
class SpecialTokens {
 public:
  SpecialTokens();

  // `text` is not empty. A control token is found only where that is allowed;
  // the others are ordinary vocabulary and are always found.
  void Add(std::string_view text, TokenId id, bool is_control);

  struct Found {
    size_t position;
    size_t bytes;  // 0: nothing found, and position is the text's size
    TokenId id;
  };
  // The first special token of `text` at or after `from`, the longest one if
  // several start there.
  Found Find(std::string_view text, size_t from, bool allow_control) const;

 private:
  struct Node {
    TokenId ordinary = -1;  // the token that ends here, or -1
    TokenId control = -1;
  };

  std::vector<Node> nodes_;                           // the first is the root
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // key: parent, byte
  std::array<bool, 256> starts_ordinary_{};
  std::array<bool, 256> starts_any_{};
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SPECIAL_TOKENS_H_
