#include "engine/model/cached_multi_head_attention.h"

#include <cstdint>

#include "engine/backend/ops.h"

namespace kvasir {

CachedMultiHeadAttention::CachedMultiHeadAttention(const ModelConfig* config,
                                                   const LayerWeights* weights,
                                                   Backend* backend)
    : config_(config), weights_(weights), backend_(backend) {}

void CachedMultiHeadAttention::Forward(const KvLayout& layout, int32_t layer,
                                       absl::Span<const SequenceRows> sequences,
                                       Activations normed,
                                       const Scratch& scratch,
                                       Activations residual) const {
  // What goes wrong in keys and values stays in the cache for every later
  // token.
  const LinearOutput projections[] = {
      {.weight = weights_->query.get(),
       .bias = weights_->query_bias,
       .out = scratch.query},
      {.weight = weights_->key.get(),
       .bias = weights_->key_bias,
       .out = scratch.key,
       .fine_activations = true},
      {.weight = weights_->value.get(),
       .bias = weights_->value_bias,
       .out = scratch.value,
       .fine_activations = true},
  };
  ops::Linear(*backend_, normed, projections);
  ops::RopeAndStore(*backend_, config_->rope.Spec(), layout, layer, sequences,
                    scratch.query, scratch.key, scratch.value);
  ops::PagedAttention(*backend_, layout, layer, config_->attention_scale,
                      sequences, scratch.query, scratch.context);
  const LinearOutput output[] = {{.weight = weights_->attention_output.get(),
                                  .bias = {},
                                  .out = residual,
                                  .accumulate = true}};
  ops::Linear(*backend_, scratch.context, output);
}

}  // namespace kvasir
