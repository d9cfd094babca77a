#ifndef KVASIR_ENGINE_MODEL_MODEL_CONFIG_H_
#define KVASIR_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/backend/backend.h"
#include "engine/model/gguf_file.h"

namespace kvasir {

// Rotary embedding settings with their scaling already resolved to one
// frequency per pair; RopeSpec is the view that kernels take.
struct RopeConfig {
  RopeSpec::Pairing pairing = RopeSpec::Pairing::kAdjacent;
  int32_t rotated_dim = 0;
  std::vector<float> inverse_frequencies;  // rotated_dim / 2
  float magnitude = 1.0f;

  RopeSpec Spec() const {
    return {pairing, rotated_dim, inverse_frequencies, magnitude};
  }
};

// The hyper-parameters of a decoder of the Llama family, read from a model file
// and checked against each other and against the tensors' shapes. Plain value.
struct ModelConfig {
  std::string name;          // general.name, for people
  std::string architecture;  // "llama"
  std::string quantization;  // most frequent matrix type: "Q4_1"
  int32_t layer_count = 0;
  int32_t hidden_dim = 0;
  int32_t feed_forward_dim = 0;
  int32_t head_count = 0;     // query heads
  int32_t kv_head_count = 0;  // divides head_count
  int32_t head_dim = 0;
  int32_t vocab_size = 0;      // rows of the output matrix: width of the logits
  int32_t embedding_rows = 0;  // rows of the embedding table
  int32_t max_context = 0;     // positions the model was trained for
  float norm_epsilon = 0;
  float attention_scale = 0;  // 1/sqrt(head_dim) unless the file says otherwise
  bool tied_output = false;   // the embedding matrix is the output matrix
  bool qkv_bias = false;
  RopeConfig rope;
};

// UNIMPLEMENTED for an architecture, RoPE scaling or feature without support,
// INVALID_ARGUMENT for values that are missing, absurd or contradict a tensor;
// each names the key and the values wanted and found.
absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_MODEL_CONFIG_H_
