#ifndef KVASIR_ENGINE_MODEL_WEIGHTS_H_
#define KVASIR_ENGINE_MODEL_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "engine/backend/backend.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"

namespace kvasir {

// One decoder layer's parameters; matrices in the backend's form, vectors as
// f32 on the host. Biases are empty where the model has none.
struct LayerWeights {
  std::vector<float> attention_norm;
  std::unique_ptr<Weight> query, key, value, attention_output;
  std::vector<float> query_bias, key_bias, value_bias;
  std::vector<float> feed_forward_norm;
  std::unique_ptr<Weight> gate, up, down;
};

// All parameters of a model. Immutable; owned by the model, freed before its
// backend.
struct Weights {
  std::unique_ptr<Weight> embedding;
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;
  std::unique_ptr<Weight> separate_output;  // null if tied
  std::string file_digest;  // GgufFile::ReadThrough()'s, of their file

  const Weight& output() const {
    return separate_output ? *separate_output : *embedding;
  }
  int64_t memory_bytes() const;
};

// What the tensors of a file take in memory, but for the padding of rows: they
// are kept as they are stored.
int64_t WeightBytes(const GgufFile& file);

// Reads and repacks every tensor in one pass through the file.
// `progress(done_bytes, total_bytes)` is called now and then; returning false
// abandons the load with CANCELLED. Before anything is read, tensors that are
// missing or have another shape than `config` wants are INVALID_ARGUMENT, with
// name, wanted and found shape. So are infinities and NaNs, with their place,
// and a file that changes meanwhile.
absl::StatusOr<Weights> LoadWeights(
    const GgufFile& file, const ModelConfig& config, Backend& backend,
    absl::FunctionRef<bool(int64_t, int64_t)> progress);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_WEIGHTS_H_
