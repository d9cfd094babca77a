#ifndef KVASIR_TESTS_SUPPORT_TINY_MODEL_H_
#define KVASIR_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "engine/backend/tensor.h"
#include "tests/support/gguf_writer.h"

namespace kvasir {

// A made-up decoder with random weights, small enough for every test. The
// defaults are the model TINY of the field cases; another seed gives TINY-B.
//
// Weights are scaled so that greedy output neither repeats one token nor
// forgets the prompt: attention is peaked, and what the layers add outweighs
// the token's own embedding.
struct TinyModelOptions {
  // Where the output matrix comes from. A GGUF file has no tie flag: it is tied
  // if it has no output.weight.
  enum class Head : uint8_t {
    kTied,
    kTiedWithCopy,  // output.weight is there and equals the embedding
    kUntied,
  };

  uint64_t seed = 1;
  std::string name = "tiny";
  std::string architecture = "llama";  // or "qwen2", which adds q, k, v biases
  DType matrix_type = DType::kF32;     // vectors are always f32
  Head head = Head::kTied;
  int32_t layer_count = 2;
  int32_t hidden_dim = 64;       // K-quants need a multiple of 256
  int32_t feed_forward_dim = 0;  // 0: twice hidden_dim
  int32_t head_count = 4;
  int32_t kv_head_count = 2;
  int32_t max_context = 32768;
  // Tokens of the vocabulary: 3 control tokens, 256 bytes, then merges; 0 means
  // all TinyVocabulary() has.
  int32_t token_count = 0;
  // Rows of the embedding and, if it is there, of the output matrix; 0 means
  // one per token.
  int32_t embedding_rows = 0;
  int32_t output_rows = 0;
  bool add_bos = false;
};

// The vocabulary's parts, as GGUF stores them (bytes in GPT-2's printable
// alphabet). Ids: 0 <|endoftext|>, 1 <|im_start|> (BOS), 2 <|im_end|> (EOS),
// 3 + b the byte b, from 259 on the merges.
struct TinyVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;       // GGUF's: 1 normal, 3 control
  std::vector<std::string> merges;  // "left right"
};
TinyVocabulary MakeTinyVocabulary(int32_t token_count);

// The file, ready to be altered by a test and built.
GgufWriter MakeTinyModel(const TinyModelOptions& options = {});

std::string TinyModelBytes(const TinyModelOptions& options = {});
absl::Status WriteTinyModel(const TinyModelOptions& options,
                            const std::string& path);

// Deterministic random numbers, equal on every machine.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();                // SplitMix64
  int64_t Below(int64_t bound);   // [0, bound)
  float Normal(float deviation);  // roughly normal, mean 0

 private:
  uint64_t state_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_TINY_MODEL_H_
