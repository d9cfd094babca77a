#include "engine/backend/cpu/elementwise_cpu.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

// Numbers that a thread takes at least: less is done before another thread has
// woken up.
constexpr int64_t kGrainNumbers = 8192;

// Columns of a row that one thread computes in one go, where columns are
// independent.
constexpr int64_t kChunkColumns = 1024;

// Calls body(row, first column, columns) over a matrix cut into chunks.
void ForEachChunk(ThreadPool* pool, const Activations& shape,
                  absl::FunctionRef<void(int64_t, int64_t, int64_t)> body) {
  const int64_t chunks = (shape.columns + kChunkColumns - 1) / kChunkColumns;
  const int64_t grain = kGrainNumbers / std::min(kChunkColumns, shape.columns);
  pool->ParallelFor(shape.rows * chunks, grain,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t first = i % chunks * kChunkColumns;
                        body(i / chunks, first,
                             std::min(kChunkColumns, shape.columns - first));
                      }
                    });
}

}  // namespace

void ElementwiseCpu::RmsNorm(Activations in, absl::Span<const float> gain,
                             float epsilon, Activations out) {
  const int64_t grain = std::max<int64_t>(1, kGrainNumbers / in.columns);
  pool_->ParallelFor(in.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels_.rms_norm(in.Row(row), gain.data(), epsilon, in.columns,
                        out.Row(row));
    }
  });
}

void ElementwiseCpu::GatedActivation(GateFunction function, Activations gate,
                                     Activations up, Activations out) {
  const auto kernel =
      function == GateFunction::kSilu ? kernels_.silu : kernels_.gelu_tanh;
  ForEachChunk(pool_, gate, [&](int64_t row, int64_t first, int64_t count) {
    kernel(gate.Row(row) + first, up.Row(row) + first, count,
           out.Row(row) + first);
  });
}

void ElementwiseCpu::Add(Activations in, Activations inout) {
  ForEachChunk(pool_, in, [&](int64_t row, int64_t first, int64_t count) {
    kernels_.add(in.Row(row) + first, count, inout.Row(row) + first);
  });
}

}  // namespace kvasir
