#ifndef KVASIR_ENGINE_MODEL_TRANSFORMER_H_
#define KVASIR_ENGINE_MODEL_TRANSFORMER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

namespace kvasir {

// The rows of one step, over all its sequences. Spans are the caller's and must
// live through Forward().
struct ForwardBatch {
  absl::Span<const TokenId> tokens;          // one per row
  absl::Span<const SequenceRows> sequences;  // cover the rows in order
  absl::Span<const int32_t> logit_rows;      // rows whose logits are wanted
};

// The shape of the blocks that a model of this config reads and writes.
KvLayout LayoutFor(const ModelConfig& config, int32_t block_tokens,
                   KvType type);

// The forward pass of a Llama-family decoder, written once over ops.h.
//
// Owned by the engine; one thread. Holds scratch for `max_rows` rows, allocated
// once. Deterministic: the logits of a row are a function of the weights and of
// the tokens up to it (contract C2).
class Transformer {
 public:
  // `backend` outlives this object. RESOURCE_EXHAUSTED if scratch memory for
  // `max_rows` rows and `max_logit_rows` rows of logits is not to be had.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(
      ModelConfig config, Weights weights, Backend* backend, int32_t max_rows,
      int32_t max_logit_rows);
  ~Transformer();

  const ModelConfig& config() const;

  // As LayoutFor() says of its config.
  KvLayout Layout(int32_t block_tokens, KvType type) const;

  // Computes the step: writes keys and values of every row into the sequences'
  // blocks and returns logits [logit_rows.size(), vocab_size], valid until the
  // next call. INVALID_ARGUMENT if the batch is larger than Create() was told
  // or a token has no embedding.
  absl::StatusOr<Activations> Forward(const KvLayout& layout,
                                      const ForwardBatch& batch);

 private:
  struct Impl;
  explicit Transformer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_TRANSFORMER_H_
