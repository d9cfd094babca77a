#include "tests/fuzz/gguf_input.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "cache/base/check.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/tokenizer.h"
#include "engine/model/transformer.h"
#include "engine/model/weights.h"

namespace kvasir {
namespace {

// A refusal is one line that says something. False, for the callers' use.
bool Refused(const absl::Status& status) {
  const std::string text(status.message());
  KV_CHECK(!text.empty());
  KV_CHECK(text.find('\n') == std::string::npos) << text;
  KV_CHECK(status.code() != absl::StatusCode::kInternal) << text;
  return false;
}

// Reads every byte of every tensor: outside of the input, sanitizers would see
// it.
void CheckTensors(const GgufFile& file, absl::Span<const uint8_t> bytes) {
  size_t shown = 0;
  const auto digest =
      file.ReadThrough([&](const GgufTensor& tensor, const uint8_t* data) {
        KV_CHECK(
            tensor.bytes > 0 && tensor.offset > 0 &&
            tensor.offset + tensor.bytes <= file.file_bytes() &&
            std::equal(data, data + tensor.bytes, bytes.data() + tensor.offset))
            << tensor.name;
        const HostMatrix matrix = tensor.AsMatrix(data);
        KV_CHECK(matrix.rows * matrix.RowBytes() == tensor.bytes)
            << tensor.name;
        ++shown;
        return absl::OkStatus();
      });
  KV_CHECK(digest.ok()) << digest.status();
  KV_CHECK(shown == file.tensors().size()) << shown;
}

bool ReadVocabulary(const GgufFile& file) {
  absl::StatusOr<TokenizerSpec> spec = ReadTokenizerSpec(file);
  if (!spec.ok()) return Refused(spec.status());
  const auto tokenizer = Tokenizer::Create(*std::move(spec));
  if (!tokenizer.ok()) return Refused(tokenizer.status());
  const std::vector<TokenId> ids =
      (*tokenizer)->Encode("The old harbour\xff 123\n", true);
  DecodeText(**tokenizer, ids, false);
  return true;
}

bool ComputeOneToken(const GgufFile& file) {
  static Backend* const backend =
      MakeCpuBackend({.thread_count = 1}).value().release();
  absl::StatusOr<ModelConfig> config = ReadModelConfig(file);
  if (!config.ok()) return Refused(config.status());
  absl::StatusOr<Weights> weights = LoadWeights(
      file, *config, *backend, [](int64_t, int64_t) { return true; });
  if (!weights.ok()) return Refused(weights.status());
  auto transformer = Transformer::Create(*std::move(config),
                                         *std::move(weights), backend, 1, 1);
  if (!transformer.ok()) return Refused(transformer.status());
  const KvLayout layout = (*transformer)->Layout(16, KvType::kF16);
  std::vector<std::byte> block(layout.BlockBytes());
  const BlockId id(0);
  const TokenId token = 0;
  const int32_t row = 0;
  const SequenceRows rows = {
      .first_row = 0,
      .row_count = 1,
      .first_position = 0,
      .table = {block.data(), layout.BlockBytes(), {&id, 1}}};
  const auto logits = (*transformer)
                          ->Forward(layout, {.tokens = {&token, 1},
                                             .sequences = {&rows, 1},
                                             .logit_rows = {&row, 1}});
  return logits.ok() || Refused(logits.status());
}

}  // namespace

bool RunGgufInput(absl::Span<const uint8_t> bytes) {
  const auto file = GgufFile::Parse(bytes, "input.gguf");
  if (!file.ok()) return Refused(file.status());
  CheckTensors(**file, bytes);
  const bool readable = ReadVocabulary(**file);
  return ComputeOneToken(**file) && readable;
}

}  // namespace kvasir
