#ifndef KVASIR_ENGINE_BACKEND_OPS_H_
#define KVASIR_ENGINE_BACKEND_OPS_H_

#include <cstdint>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/tensor.h"

// Every op of the forward pass, declared once. Each checks its shapes (a wrong
// one is our bug: KV_CHECK) and calls the backend's kernel. T is the number of
// token rows of the step; H and G the number of query and KV heads; D a head's
// dimensions.
namespace kvasir::ops {

// out [T, columns] = rows `ids` [T] of table, dequantized, times `scale`.
void Embed(Backend& backend, const Weight& table, absl::Span<const TokenId> ids,
           float scale, Activations out);

// out[r] = in[r] / sqrt(mean(in[r]^2) + epsilon) * gain. in and out [T, n],
// gain [n]; out may be in.
void RmsNorm(Backend& backend, Activations in, absl::Span<const float> gain,
             float epsilon, Activations out);

// out_i [T, rows_i] (+)= in [T, columns] * weight_i^T + bias_i for each output;
// the weights share `columns`. No out may overlap in.
void Linear(Backend& backend, Activations in,
            absl::Span<const LinearOutput> outputs);

// Turns query [T, H*D] and key [T, G*D] in place by their positions, then
// writes key and value [T, G*D] into the sequences' blocks of `layer`, in the
// layout's type.
void RopeAndStore(Backend& backend, const RopeSpec& rope,
                  const KvLayout& layout, int32_t layer,
                  absl::Span<const SequenceRows> sequences, Activations query,
                  Activations key, Activations value);

// out [T, H*D]: for each row and head, softmax(query . keys * scale) . values
// over the tokens at positions up to and including the row's own, read from the
// blocks. H is a multiple of G; query head h reads KV head h / (H/G).
void PagedAttention(Backend& backend, const KvLayout& layout, int32_t layer,
                    float scale, absl::Span<const SequenceRows> sequences,
                    Activations query, Activations out);

// out [T, n] = f(gate) * up. out may be gate or up.
void GatedActivation(Backend& backend, GateFunction function, Activations gate,
                     Activations up, Activations out);

// inout [T, n] += in.
void Add(Backend& backend, Activations in, Activations inout);

}  // namespace kvasir::ops

#endif  // KVASIR_ENGINE_BACKEND_OPS_H_
