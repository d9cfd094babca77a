#ifndef KVASIR_TESTS_SUPPORT_NAIVE_DECODER_H_
#define KVASIR_TESTS_SUPPORT_NAIVE_DECODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "engine/model/gguf_file.h"

namespace kvasir {

// A decoder of the Llama family as one would write it on paper: double
// precision, no cache, no batch, every position from scratch. The twin of the
// Transformer; it shares nothing with it but the file and the backend's scalar
// dequantization.
//
// Reads its shape straight from the metadata; a missing key is a test bug. RoPE
// scaling is the test's to set, in `inverse_frequencies` and `magnitude`.
class NaiveDecoder {
 public:
  explicit NaiveDecoder(const GgufFile* file);

  // Logits after each of `tokens`.
  std::vector<std::vector<double>> AllLogits(
      absl::Span<const TokenId> tokens) const;

  std::vector<double> inverse_frequencies;  // one per pair, plain at first
  double magnitude = 1;

 private:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  int64_t Int(const std::string& key) const;
  Row Vector(const std::string& name) const;  // empty if there is none
  Rows Matrix(const std::string& name) const;
  Row Norm(const Row& in, const Row& gain) const;
  void Rotate(int64_t position, double* head) const;
  Rows Attention(const std::string& prefix, const Rows& normed) const;
  Rows FeedForward(const std::string& prefix, const Rows& normed) const;

  const GgufFile* file_;
  std::string architecture_;
  int64_t layers_, heads_, kv_heads_, head_dim_;
  double epsilon_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_NAIVE_DECODER_H_
