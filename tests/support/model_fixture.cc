#include "tests/support/model_fixture.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {
namespace {

template <typename T>
T Take(absl::StatusOr<T> value) {
  KV_CHECK(value.ok()) << value.status();
  return *std::move(value);
}

}  // namespace

ModelFixture::ModelFixture(const std::string& path,
                           const CpuBackendOptions& options, KvType kv_type,
                           int32_t block_tokens)
    : file_(Take(GgufFile::Open(path))) {
  Load(options, kv_type, block_tokens);
}

ModelFixture::ModelFixture(absl::Span<const uint8_t> bytes,
                           const CpuBackendOptions& options, KvType kv_type,
                           int32_t block_tokens)
    : file_(Take(GgufFile::Parse(bytes, "memory"))) {
  Load(options, kv_type, block_tokens);
}

void ModelFixture::Load(const CpuBackendOptions& options, KvType kv_type,
                        int32_t block_tokens) {
  backend_ = Take(MakeCpuBackend(options));
  ModelConfig config = Take(ReadModelConfig(*file_));
  Weights weights = Take(LoadWeights(*file_, config, *backend_,
                                     [](int64_t, int64_t) { return true; }));
  transformer_ = Take(Transformer::Create(std::move(config), std::move(weights),
                                          backend_.get(), kMaxRows, kMaxRows));
  layout_ = transformer_->Layout(block_tokens, kv_type);
}

void ModelFixture::ReserveTokens(int64_t tokens, bool falling) {
  const int64_t blocks = layout_.BlocksFor(tokens);
  // Every byte is a NaN: what was not written must not be read.
  pool_.assign(blocks * layout_.BlockBytes(), std::byte{0xff});
  ids_.clear();
  for (int64_t i = 0; i < blocks; ++i) {
    ids_.emplace_back(static_cast<int32_t>(falling ? blocks - 1 - i : i));
  }
}

std::vector<float> ModelFixture::Append(absl::Span<const TokenId> tokens,
                                        int64_t first_position, int32_t chunk) {
  std::vector<float> last;
  for (size_t done = 0; done < tokens.size();) {
    const size_t rows =
        std::min<size_t>(std::min(chunk, kMaxRows), tokens.size() - done);
    const SequenceRows sequence = {
        .first_row = 0,
        .row_count = static_cast<int64_t>(rows),
        .first_position = first_position + static_cast<int64_t>(done),
        .table = Table()};
    const int32_t wanted = static_cast<int32_t>(rows) - 1;
    done += rows;
    const bool is_last = done == tokens.size();
    const Activations logits = Take(transformer_->Forward(
        layout_, {.tokens = tokens.subspan(done - rows, rows),
                  .sequences = {&sequence, 1},
                  .logit_rows = {&wanted, is_last ? 1u : 0u}}));
    if (is_last) last.assign(logits.Row(0), logits.Row(0) + logits.columns);
  }
  return last;
}

std::vector<std::vector<float>> ModelFixture::AllLogits(
    absl::Span<const TokenId> tokens, int32_t chunk) {
  ReserveTokens(static_cast<int64_t>(tokens.size()));
  std::vector<std::vector<float>> all;
  for (size_t done = 0; done < tokens.size();) {
    const size_t rows = std::min<size_t>(chunk, tokens.size() - done);
    const SequenceRows sequence = {.first_row = 0,
                                   .row_count = static_cast<int64_t>(rows),
                                   .first_position = static_cast<int64_t>(done),
                                   .table = Table()};
    std::vector<int32_t> wanted(rows);
    std::iota(wanted.begin(), wanted.end(), 0);
    const Activations logits = Take(
        transformer_->Forward(layout_, {.tokens = tokens.subspan(done, rows),
                                        .sequences = {&sequence, 1},
                                        .logit_rows = wanted}));
    for (size_t i = 0; i < rows; ++i) {
      all.emplace_back(logits.Row(static_cast<int64_t>(i)),
                       logits.Row(static_cast<int64_t>(i)) + logits.columns);
    }
    done += rows;
  }
  return all;
}

}  // namespace kvasir
