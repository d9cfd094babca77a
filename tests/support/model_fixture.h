#ifndef KVASIR_TESTS_SUPPORT_MODEL_FIXTURE_H_
#define KVASIR_TESTS_SUPPORT_MODEL_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/model/gguf_file.h"
#include "engine/model/transformer.h"

namespace kvasir {

// A model with a plain array of blocks instead of a cache: for tests and
// benchmarks below the engine. Block i of a sequence is block i of the array,
// in rising or, to show that order in memory means nothing, falling order.
class ModelFixture {
 public:
  static constexpr int32_t kMaxRows = 256;

  ModelFixture(const std::string& path, const CpuBackendOptions& options,
               KvType kv_type, int32_t block_tokens = 16);
  // The same over a file in memory.
  ModelFixture(absl::Span<const uint8_t> bytes,
               const CpuBackendOptions& options, KvType kv_type,
               int32_t block_tokens = 16);

  // Makes room for sequences of up to `tokens` tokens; forgets what was there.
  void ReserveTokens(int64_t tokens, bool falling = false);

  // Computes `tokens` at positions from `first_position` on in chunks of at
  // most `chunk` rows and returns the logits of the last one.
  std::vector<float> Append(absl::Span<const TokenId> tokens,
                            int64_t first_position, int32_t chunk = kMaxRows);

  // Logits after every token of a fresh sequence.
  std::vector<std::vector<float>> AllLogits(absl::Span<const TokenId> tokens,
                                            int32_t chunk = 64);

  const KvLayout& layout() const { return layout_; }
  const ModelConfig& config() const { return transformer_->config(); }
  Transformer& transformer() { return *transformer_; }
  BlockTableView Table() { return {pool_.data(), layout_.BlockBytes(), ids_}; }

 private:
  void Load(const CpuBackendOptions& options, KvType kv_type,
            int32_t block_tokens);

  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  KvLayout layout_;
  std::vector<std::byte> pool_;
  std::vector<BlockId> ids_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_MODEL_FIXTURE_H_
