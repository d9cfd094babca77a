#ifndef KVASIR_ENGINE_MODEL_INFO_H_
#define KVASIR_ENGINE_MODEL_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/strong_id.h"

namespace kvasir {

// What clients may know of a model revision. Plain value.
struct ModelInfo {
  std::string name;
  std::string architecture;
  std::string quantization;
  std::string digest;  // SHA-256 of the file, hex
  std::string path;    // of the file
  std::string tokenizer_digest;
  std::string cache_version;  // the label that it is served under
  std::string cache_fingerprint;
  std::string backend;  // Backend::numerics()
  std::string chat_template;
  std::string chat_refusal;  // why no chat can be encoded; empty: it can
  int64_t weight_bytes = 0;
  int64_t max_context = 0;  // that the model was trained for
  int32_t vocab_size = 0;
  int32_t layer_count = 0;
  int32_t kv_head_count = 0;
  int32_t head_dim = 0;
  int64_t kv_bytes_per_token = 0;
  int32_t thread_count = 0;
  std::string kv_type;
  std::vector<TokenId> end_tokens;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_INFO_H_
