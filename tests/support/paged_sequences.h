#ifndef KVASIR_TESTS_SUPPORT_PAGED_SEQUENCES_H_
#define KVASIR_TESTS_SUPPORT_PAGED_SEQUENCES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/model/transformer.h"
#include "tests/support/tiny_model.h"

namespace kvasir {

// Several sequences that share one array of blocks, run through a Transformer
// in whatever steps a test likes: what the cache and the engine do, without
// either. Blocks are given out in random order and are full of NaNs before they
// are written: what was not computed must not be read.
class PagedSequences {
 public:
  using Logits = std::vector<std::vector<float>>;  // one row per token

  // The transformer outlives this object. Room for `blocks` blocks.
  PagedSequences(Transformer* transformer, const KvLayout& layout,
                 int64_t blocks, uint64_t seed);

  // A new sequence of these tokens, none of them computed. Returns its index.
  int64_t Add(absl::Span<const TokenId> tokens);

  // The same, with the first `shared` tokens taken as computed by sequence
  // `other` (a warm hit). They must be equal, computed and whole blocks.
  int64_t AddSharing(absl::Span<const TokenId> tokens, int64_t other,
                     int64_t shared);

  // One step: the next `counts[i]` tokens of each sequence i. Their logits are
  // all wanted and kept.
  void Step(absl::Span<const int64_t> counts);

  // Steps of `chunk` tokens of one sequence, to its end.
  void Finish(int64_t sequence, int64_t chunk);

  int64_t Remaining(int64_t sequence) const;
  int64_t size() const { return static_cast<int64_t>(sequences_.size()); }

  // Of every token that this sequence computed itself.
  const Logits& logits(int64_t sequence) const;

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    int64_t computed = 0;
    std::vector<BlockId> blocks;
    Logits logits;
  };

  Transformer* transformer_;
  KvLayout layout_;
  std::unique_ptr<std::byte[]> pool_;
  std::vector<BlockId> free_;
  std::vector<Sequence> sequences_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_PAGED_SEQUENCES_H_
