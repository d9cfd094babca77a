#include "engine/model/transformer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/backend/ops.h"
#include "engine/model/cached_multi_head_attention.h"

namespace kvasir {
namespace {

// Rows of scratch begin on a cache line, so that kernels load aligned.
constexpr int64_t kRowAlignFloats = 16;

int64_t PaddedColumns(int64_t columns) {
  return (columns + kRowAlignFloats - 1) / kRowAlignFloats * kRowAlignFloats;
}

}  // namespace

struct Transformer::Impl {
  ModelConfig config;
  Weights weights;
  Backend* backend;
  int32_t max_rows;
  int32_t max_logit_rows;
  std::vector<CachedMultiHeadAttention> attention;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  Activations hidden, normed, query, key, value, context, gate, up;
  Activations logit_input, logits;

  absl::Status AllocateScratch();
  absl::StatusOr<Activations> Scratch(int64_t rows, int64_t columns);
  absl::Status CheckBatch(const ForwardBatch& batch) const;
  void FeedForward(const LayerWeights& layer, int64_t rows);
  void RunLayers(const KvLayout& layout, const ForwardBatch& batch);
  Activations Logits(absl::Span<const int32_t> rows);
};

absl::StatusOr<Activations> Transformer::Impl::Scratch(int64_t rows,
                                                       int64_t columns) {
  const int64_t stride = PaddedColumns(columns);
  ASSIGN_OR_RETURN(
      std::unique_ptr<DeviceBuffer> buffer,
      backend->Allocate(rows * stride * static_cast<int64_t>(sizeof(float))));
  Activations view{reinterpret_cast<float*>(buffer->data()), rows, columns,
                   stride};
  buffers.push_back(std::move(buffer));
  return view;
}

absl::Status Transformer::Impl::AllocateScratch() {
  const int64_t query_dim = int64_t{config.head_count} * config.head_dim;
  const int64_t kv_dim = int64_t{config.kv_head_count} * config.head_dim;
  ASSIGN_OR_RETURN(hidden, Scratch(max_rows, config.hidden_dim));
  ASSIGN_OR_RETURN(normed, Scratch(max_rows, config.hidden_dim));
  ASSIGN_OR_RETURN(query, Scratch(max_rows, query_dim));
  ASSIGN_OR_RETURN(key, Scratch(max_rows, kv_dim));
  ASSIGN_OR_RETURN(value, Scratch(max_rows, kv_dim));
  ASSIGN_OR_RETURN(context, Scratch(max_rows, query_dim));
  ASSIGN_OR_RETURN(gate, Scratch(max_rows, config.feed_forward_dim));
  ASSIGN_OR_RETURN(up, Scratch(max_rows, config.feed_forward_dim));
  ASSIGN_OR_RETURN(logit_input, Scratch(max_logit_rows, config.hidden_dim));
  ASSIGN_OR_RETURN(logits, Scratch(max_logit_rows, config.vocab_size));
  return absl::OkStatus();
}

absl::Status Transformer::Impl::CheckBatch(const ForwardBatch& batch) const {
  const int64_t rows = static_cast<int64_t>(batch.tokens.size());
  if (rows > max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of ", rows, " rows, at most ", max_rows, " fit"));
  }
  if (static_cast<int64_t>(batch.logit_rows.size()) > max_logit_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits of ", batch.logit_rows.size(),
                     " rows wanted, at most ", max_logit_rows, " fit"));
  }
  for (const TokenId token : batch.tokens) {
    if (token < 0 || token >= config.embedding_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, " has no embedding, ids below ",
                       config.embedding_rows, " do"));
    }
  }
  int64_t covered = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    KV_CHECK(sequence.first_row == covered) << "rows out of order";
    covered += sequence.row_count;
  }
  KV_CHECK(covered == rows) << covered << " rows covered of " << rows;
  return absl::OkStatus();
}

void Transformer::Impl::FeedForward(const LayerWeights& layer, int64_t rows) {
  const Activations inner_gate = gate.Rows(0, rows);
  const Activations inner_up = up.Rows(0, rows);
  const LinearOutput inner[] = {
      {.weight = layer.gate.get(), .bias = {}, .out = inner_gate},
      {.weight = layer.up.get(), .bias = {}, .out = inner_up},
  };
  ops::Linear(*backend, normed.Rows(0, rows), inner);
  ops::GatedActivation(*backend, GateFunction::kSilu, inner_gate, inner_up,
                       inner_gate);
  const LinearOutput outer[] = {{.weight = layer.down.get(),
                                 .bias = {},
                                 .out = hidden.Rows(0, rows),
                                 .accumulate = true}};
  ops::Linear(*backend, inner_gate, outer);
}

void Transformer::Impl::RunLayers(const KvLayout& layout,
                                  const ForwardBatch& batch) {
  const int64_t rows = static_cast<int64_t>(batch.tokens.size());
  const Activations residual = hidden.Rows(0, rows);
  const Activations input = normed.Rows(0, rows);
  const CachedMultiHeadAttention::Scratch scratch = {
      query.Rows(0, rows), key.Rows(0, rows), value.Rows(0, rows),
      context.Rows(0, rows)};
  ops::Embed(*backend, *weights.embedding, batch.tokens, 1.0f, residual);
  for (int32_t i = 0; i < config.layer_count; ++i) {
    const LayerWeights& layer = weights.layers[i];
    ops::RmsNorm(*backend, residual, layer.attention_norm, config.norm_epsilon,
                 input);
    attention[i].Forward(layout, i, batch.sequences, input, scratch, residual);
    ops::RmsNorm(*backend, residual, layer.feed_forward_norm,
                 config.norm_epsilon, input);
    FeedForward(layer, rows);
  }
}

// The last norm also gathers: wanted rows end up next to each other, and the
// large output product runs over these only.
Activations Transformer::Impl::Logits(absl::Span<const int32_t> rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const Activations out = logits.Rows(0, count);
  if (count == 0) return out;
  for (int64_t i = 0; i < count; ++i) {
    ops::RmsNorm(*backend, hidden.Rows(rows[i], 1), weights.output_norm,
                 config.norm_epsilon, logit_input.Rows(i, 1));
  }
  const LinearOutput product[] = {{.weight = &weights.output(),
                                   .bias = {},
                                   .out = out,
                                   .fine_activations = true}};
  ops::Linear(*backend, logit_input.Rows(0, count), product);
  return out;
}

Transformer::Transformer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Transformer::~Transformer() = default;

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(
    ModelConfig config, Weights weights, Backend* backend, int32_t max_rows,
    int32_t max_logit_rows) {
  KV_CHECK(backend != nullptr && max_rows > 0 && max_logit_rows > 0);
  auto impl = std::make_unique<Impl>();
  impl->config = std::move(config);
  impl->weights = std::move(weights);
  impl->backend = backend;
  impl->max_rows = max_rows;
  impl->max_logit_rows = max_logit_rows;
  RETURN_IF_ERROR(impl->AllocateScratch());
  for (const LayerWeights& layer : impl->weights.layers) {
    impl->attention.emplace_back(&impl->config, &layer, backend);
  }
  return std::unique_ptr<Transformer>(new Transformer(std::move(impl)));
}

const ModelConfig& Transformer::config() const { return impl_->config; }

KvLayout LayoutFor(const ModelConfig& config, int32_t block_tokens,
                   KvType type) {
  return {.layer_count = config.layer_count,
          .kv_head_count = config.kv_head_count,
          .head_dim = config.head_dim,
          .block_tokens = block_tokens,
          .type = type};
}

KvLayout Transformer::Layout(int32_t block_tokens, KvType type) const {
  return LayoutFor(impl_->config, block_tokens, type);
}

absl::StatusOr<Activations> Transformer::Forward(const KvLayout& layout,
                                                 const ForwardBatch& batch) {
  RETURN_IF_ERROR(impl_->CheckBatch(batch));
  for (const int32_t row : batch.logit_rows) {
    KV_CHECK(row >= 0 && row < static_cast<int64_t>(batch.tokens.size()));
  }
  if (!batch.tokens.empty()) impl_->RunLayers(layout, batch);
  return impl_->Logits(batch.logit_rows);
}

}  // namespace kvasir
