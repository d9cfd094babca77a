#ifndef KVASIR_ENGINE_MODEL_CACHED_MULTI_HEAD_ATTENTION_H_
#define KVASIR_ENGINE_MODEL_CACHED_MULTI_HEAD_ATTENTION_H_

#include <cstdint>

#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

namespace kvasir {

// Multi-head attention with a KV cache: joins the projections of one layer with
// the cache's blocks. For each row it projects query, key and value, turns
// query and key by their position, appends key and value to the sequence's
// block and attends over every block of the sequence, of which the leading ones
// may have been computed by another sequence, step or version's warm-up.
//
// It knows blocks only as BlockTableViews; who owns them is the cache's affair.
class CachedMultiHeadAttention {
 public:
  // Rows of scratch that a call needs, all [T, columns]: query and context
  // [T, H*D], key and value [T, G*D].
  struct Scratch {
    Activations query, key, value, context;
  };

  // All three outlive this object.
  CachedMultiHeadAttention(const ModelConfig* config,
                           const LayerWeights* weights, Backend* backend);

  // residual [T, hidden] += attention(normed [T, hidden]) for layer `layer`.
  void Forward(const KvLayout& layout, int32_t layer,
               absl::Span<const SequenceRows> sequences, Activations normed,
               const Scratch& scratch, Activations residual) const;

 private:
  const ModelConfig* config_;
  const LayerWeights* weights_;
  Backend* backend_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CACHED_MULTI_HEAD_ATTENTION_H_
