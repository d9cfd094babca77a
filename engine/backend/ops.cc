#include "engine/backend/ops.h"

#include <cstdint>
#include <string_view>

#include "absl/types/span.h"

#include "cache/base/check.h"
#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/tensor.h"

namespace kvasir::ops {
namespace {

void CheckMatrix(std::string_view name, const Activations& matrix, int64_t rows,
                 int64_t columns) {
  KV_CHECK(matrix.rows == rows && matrix.columns == columns)
      << name << ": wanted [" << rows << ", " << columns << "], found ["
      << matrix.rows << ", " << matrix.columns << "]";
  KV_CHECK(rows == 0 || matrix.data != nullptr) << name << " has no memory";
  KV_CHECK(rows <= 1 || matrix.stride >= columns)
      << name << ": wanted a stride of " << columns << " or more, found "
      << matrix.stride;
}

void CheckLayout(const KvLayout& layout, int32_t layer) {
  // The CPU's vectors hold 8 numbers or a multiple.
  KV_CHECK(layout.head_dim > 0 && layout.head_dim % 8 == 0)
      << "wanted a head_dim that is a multiple of 8, found " << layout.head_dim;
  KV_CHECK(layout.block_tokens > 0 && layout.block_tokens % 8 == 0)
      << "wanted block_tokens that are a multiple of 8, found "
      << layout.block_tokens;
  KV_CHECK(layout.kv_head_count > 0)
      << "wanted 1 KV head or more, found " << layout.kv_head_count;
  KV_CHECK(0 <= layer && layer < layout.layer_count)
      << "wanted a layer below " << layout.layer_count << ", found " << layer;
}

// The sequences' rows are the step's rows in order, and their tables reach to
// their last position.
void CheckSequences(const KvLayout& layout,
                    absl::Span<const SequenceRows> sequences, int64_t rows) {
  int64_t next_row = 0;
  for (const SequenceRows& sequence : sequences) {
    KV_CHECK(sequence.first_row == next_row && sequence.row_count >= 0)
        << "wanted a sequence from row " << next_row << " on, found "
        << sequence.row_count << " rows from row " << sequence.first_row;
    next_row += sequence.row_count;
    if (sequence.row_count == 0) continue;
    KV_CHECK(sequence.first_position >= 0)
        << "wanted a position, found " << sequence.first_position;
    const BlockTableView& table = sequence.table;
    const int64_t wanted = sequence.first_position + sequence.row_count;
    KV_CHECK(table.Places(layout) >= wanted)
        << "wanted a table for " << wanted << " tokens, found "
        << table.blocks.size() << " blocks and " << table.tail.size()
        << " pieces";
    KV_CHECK(table.base != nullptr && table.block_bytes >= layout.BlockBytes())
        << "wanted blocks of " << layout.BlockBytes() << " bytes, found "
        << table.block_bytes << (table.base == nullptr ? " at no address" : "");
  }
  KV_CHECK(next_row == rows)
      << "wanted sequences with " << rows << " rows in all, found " << next_row;
}

void CheckRope(const RopeSpec& rope, const KvLayout& layout) {
  KV_CHECK(rope.rotated_dim >= 0 && rope.rotated_dim % 2 == 0 &&
           rope.rotated_dim <= layout.head_dim)
      << "wanted an even rotated_dim up to " << layout.head_dim << ", found "
      << rope.rotated_dim;
  KV_CHECK(static_cast<int64_t>(rope.inverse_frequencies.size()) ==
           rope.rotated_dim / 2)
      << "wanted " << rope.rotated_dim / 2 << " frequencies, found "
      << rope.inverse_frequencies.size();
}

// Query columns are whole heads, a multiple of the KV heads in number.
void CheckQuery(const Activations& query, const KvLayout& layout) {
  const int64_t all = int64_t{layout.kv_head_count} * layout.head_dim;
  KV_CHECK(query.columns > 0 && query.columns % all == 0)
      << "query: wanted a multiple of " << layout.kv_head_count
      << " KV heads of " << layout.head_dim << " columns, found "
      << query.columns;
}

}  // namespace

void Embed(Backend& backend, const Weight& table, absl::Span<const TokenId> ids,
           float scale, Activations out) {
  CheckMatrix("out", out, static_cast<int64_t>(ids.size()), table.columns());
  for (TokenId id : ids) {
    KV_CHECK(0 <= id && id < table.rows())
        << "wanted a token below " << table.rows() << ", found " << id;
  }
  if (ids.empty()) return;
  backend.EmbedKernel(table, ids, scale, out);
}

void RmsNorm(Backend& backend, Activations in, absl::Span<const float> gain,
             float epsilon, Activations out) {
  CheckMatrix("out", out, in.rows, in.columns);
  CheckMatrix("in", in, in.rows, in.columns);
  KV_CHECK(static_cast<int64_t>(gain.size()) == in.columns)
      << "gain: wanted " << in.columns << " numbers, found " << gain.size();
  if (in.rows == 0 || in.columns == 0) return;
  backend.RmsNormKernel(in, gain, epsilon, out);
}

void Linear(Backend& backend, Activations in,
            absl::Span<const LinearOutput> outputs) {
  CheckMatrix("in", in, in.rows, in.columns);
  for (const LinearOutput& output : outputs) {
    KV_CHECK(output.weight != nullptr) << "an output without a weight";
    KV_CHECK(output.weight->columns() == in.columns)
        << "weight: wanted " << in.columns << " columns, found "
        << output.weight->columns();
    CheckMatrix("out", output.out, in.rows, output.weight->rows());
    KV_CHECK(output.bias.empty() ||
             static_cast<int64_t>(output.bias.size()) == output.out.columns)
        << "bias: wanted " << output.out.columns << " numbers or none, found "
        << output.bias.size();
  }
  if (in.rows == 0 || outputs.empty()) return;
  backend.LinearKernel(in, outputs);
}

void RopeAndStore(Backend& backend, const RopeSpec& rope,
                  const KvLayout& layout, int32_t layer,
                  absl::Span<const SequenceRows> sequences, Activations query,
                  Activations key, Activations value) {
  CheckLayout(layout, layer);
  CheckRope(rope, layout);
  CheckSequences(layout, sequences, query.rows);
  CheckQuery(query, layout);
  const int64_t columns = int64_t{layout.kv_head_count} * layout.head_dim;
  CheckMatrix("query", query, query.rows, query.columns);
  CheckMatrix("key", key, query.rows, columns);
  CheckMatrix("value", value, query.rows, columns);
  if (query.rows == 0) return;
  backend.RopeAndStoreKernel(rope, layout, layer, sequences, query, key, value);
}

void PagedAttention(Backend& backend, const KvLayout& layout, int32_t layer,
                    float scale, absl::Span<const SequenceRows> sequences,
                    Activations query, Activations out) {
  CheckLayout(layout, layer);
  CheckSequences(layout, sequences, query.rows);
  CheckQuery(query, layout);
  CheckMatrix("query", query, query.rows, query.columns);
  CheckMatrix("out", out, query.rows, query.columns);
  if (query.rows == 0) return;
  backend.PagedAttentionKernel(layout, layer, scale, sequences, query, out);
}

void GatedActivation(Backend& backend, GateFunction function, Activations gate,
                     Activations up, Activations out) {
  CheckMatrix("gate", gate, gate.rows, gate.columns);
  CheckMatrix("up", up, gate.rows, gate.columns);
  CheckMatrix("out", out, gate.rows, gate.columns);
  if (gate.rows == 0 || gate.columns == 0) return;
  backend.GatedActivationKernel(function, gate, up, out);
}

void Add(Backend& backend, Activations in, Activations inout) {
  CheckMatrix("in", in, in.rows, in.columns);
  CheckMatrix("inout", inout, in.rows, in.columns);
  if (in.rows == 0 || in.columns == 0) return;
  backend.AddKernel(in, inout);
}

}  // namespace kvasir::ops
