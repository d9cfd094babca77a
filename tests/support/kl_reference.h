#ifndef KVASIR_TESTS_SUPPORT_KL_REFERENCE_H_
#define KVASIR_TESTS_SUPPORT_KL_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/strong_id.h"

namespace kvasir {

// Log-probabilities of SmolLM2 that another implementation computed in float32;
// tests/fixtures/smollm2/README.md describes the file's layout and origin.
class KlReference {
 public:
  // `bytes` is the whole of kl_reference.bin.
  explicit KlReference(std::string bytes);

  int positions() const { return static_cast<int>(positions_); }

  // The tokens whose logits are compared, one per position.
  std::vector<TokenId> Tokens() const;

  // Divergence of softmax(logits) from the reference at one position; tokens
  // that the reference does not list are taken as one.
  double Divergence(int position, const std::vector<float>& logits) const;

 private:
  uint32_t Word(size_t offset) const;
  float Real(size_t offset) const;

  std::string bytes_;
  uint32_t vocabulary_ = 0;
  uint32_t token_count_ = 0;
  uint32_t positions_ = 0;
  uint32_t entries_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_KL_REFERENCE_H_
