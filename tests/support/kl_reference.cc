#include "tests/support/kl_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {
namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kRecordBytes = 16;

}  // namespace

KlReference::KlReference(std::string bytes) : bytes_(std::move(bytes)) {
  KV_CHECK(bytes_.substr(0, 8) == "KVKLREF1") << "not a KL reference";
  vocabulary_ = Word(12);
  token_count_ = Word(16);
  positions_ = Word(20);
  entries_ = Word(24);
}

uint32_t KlReference::Word(size_t offset) const {
  uint32_t word;
  std::memcpy(&word, bytes_.data() + offset, sizeof(word));
  return word;
}

float KlReference::Real(size_t offset) const {
  float real;
  std::memcpy(&real, bytes_.data() + offset, sizeof(real));
  return real;
}

std::vector<TokenId> KlReference::Tokens() const {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < positions_; ++i) {
    tokens.push_back(static_cast<TokenId>(Word(kHeaderBytes + 4 * i)));
  }
  return tokens;
}

double KlReference::Divergence(int position,
                               const std::vector<float>& logits) const {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - highest);
  const double log_total = highest + std::log(total);

  const size_t records = kHeaderBytes + 4 * token_count_;
  const size_t record = records + kRecordBytes * position;
  const uint32_t first = Word(record);
  const uint32_t count = Word(record + 4);
  const double log_rest = Real(record + 8);
  const size_t values = records + kRecordBytes * positions_;
  const size_t ids = values + 4 * entries_;
  std::vector<bool> listed(vocabulary_);
  double divergence = 0;
  for (uint32_t i = first; i < first + count; ++i) {
    uint16_t id;
    std::memcpy(&id, bytes_.data() + ids + 2 * i, sizeof(id));
    listed[id] = true;
    const double log_p = Real(values + 4 * i);
    divergence += std::exp(log_p) * (log_p - (logits[id] - log_total));
  }
  if (count == vocabulary_) return divergence;
  double rest = 0;
  for (uint32_t i = 0; i < vocabulary_; ++i) {
    if (!listed[i]) rest += std::exp(logits[i] - log_total);
  }
  return divergence + std::exp(log_rest) * (log_rest - std::log(rest));
}

}  // namespace kvasir
