#ifndef KVASIR_ENGINE_BACKEND_BACKEND_H_
#define KVASIR_ENGINE_BACKEND_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// A weight matrix in the form that the backend's kernels read it, which may be
// another than the file's. Owned by the model; immutable; freed with the model,
// before its backend.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual DType type() const = 0;
  virtual int64_t rows() const = 0;     // outputs
  virtual int64_t columns() const = 0;  // inputs
  virtual int64_t memory_bytes() const = 0;
};

// Memory on the device, given back by the destructor.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// Rotary embedding, with all scaling already folded into one frequency per
// pair: angle(pair, position) = position * inverse_frequencies[pair].
struct RopeSpec {
  enum class Pairing : uint8_t {
    kAdjacent,  // pairs (2i, 2i+1), as GGUF files of the Llama family expect
    kHalves,    // pairs (i, i + rotated_dim/2), as Qwen and Gemma expect
  };
  Pairing pairing = Pairing::kAdjacent;
  int32_t rotated_dim = 0;  // leading dimensions of a head that turn
  absl::Span<const float> inverse_frequencies;  // rotated_dim / 2, host memory
  float magnitude = 1.0f;  // scales cos and sin (YaRN's attention factor)
};

// The rows of one sequence inside a step: `row_count` consecutive rows of the
// batch from `first_row` on are its tokens at consecutive positions from
// `first_position` on. `table` covers the positions up to the last of them.
struct SequenceRows {
  int64_t first_row = 0;
  int64_t row_count = 0;
  int64_t first_position = 0;
  BlockTableView table;
};

// One product of a group that shares its input: out = in * weight^T + bias.
struct LinearOutput {
  const Weight* weight = nullptr;
  absl::Span<const float> bias;  // empty, or one per output; host memory
  Activations out;
  bool accumulate = false;  // add to what `out` holds (a residual)
  // Keep about 16 bits of the activations where the backend would cut them to
  // 8: for products whose errors nothing averages out.
  bool fine_activations = false;
};

// The gate's function in out = f(gate) * up.
enum class GateFunction : uint8_t { kSilu, kGeluTanh };

// A device and its kernels. The model's forward pass is written once over the
// ops in ops.h, which check shapes and call the virtual methods here.
//
// Owned by the engine, used from one thread; kernels may use threads of their
// own inside one call and have finished when it returns. Contract C2: what a
// kernel writes for a row depends on that row's inputs alone, never on the
// other rows, on how rows were split into calls, or on the number of threads.
class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu".
  virtual std::string_view name() const = 0;

  // Names everything that changes a bit of a result: kernel set, SIMD target,
  // activation type. Part of a cache version's fingerprint.
  virtual std::string numerics() const = 0;

  // Copies a matrix into the kernels' form. RESOURCE_EXHAUSTED if memory runs
  // out, UNIMPLEMENTED for a type without a kernel.
  virtual absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(
      const HostMatrix& matrix) = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) = 0;

  // --- Kernels; call them through ops.h. ---
  // Row `ids[i]` of the matrix, as f32 times `scale`, into row i of `out`.
  virtual void EmbedKernel(const Weight& table, absl::Span<const TokenId> ids,
                           float scale, Activations out) = 0;
  virtual void RmsNormKernel(Activations in, absl::Span<const float> gain,
                             float epsilon, Activations out) = 0;
  virtual void LinearKernel(Activations in,
                            absl::Span<const LinearOutput> outputs) = 0;
  virtual void RopeAndStoreKernel(const RopeSpec& rope, const KvLayout& layout,
                                  int32_t layer,
                                  absl::Span<const SequenceRows> sequences,
                                  Activations query, Activations key,
                                  Activations value) = 0;
  virtual void PagedAttentionKernel(const KvLayout& layout, int32_t layer,
                                    float scale,
                                    absl::Span<const SequenceRows> sequences,
                                    Activations query, Activations out) = 0;
  virtual void GatedActivationKernel(GateFunction function, Activations gate,
                                     Activations up, Activations out) = 0;
  virtual void AddKernel(Activations in, Activations inout) = 0;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_BACKEND_H_
