#ifndef KVASIR_ENGINE_MODEL_CANDIDATES_H_
#define KVASIR_ENGINE_MODEL_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// The tokens that may still be drawn, while filters make them fewer. One is
// always left. Shares and ratios are of what is left when a filter begins.
//
// Nothing is ordered as a whole, since a vocabulary is long and what a filter
// keeps is mostly short; ties go to the smaller id. `logits` (finite numbers)
// and `ids` (at least one) are the caller's and outlive the object; `ids` is
// reordered and cut.
class Candidates {
 public:
  // `temperature` is above 0.
  Candidates(absl::Span<const float> logits, float temperature,
             std::vector<TokenId>& ids);

  // Keeps the `k` likeliest.
  void KeepTopK(size_t k);

  // Keeps the fewest tokens whose share of the mass is at least `share`, those
  // first whose surprise, -log p, is nearest to the expected one: locally
  // typical sampling (Meister, Pimentel, Wiher and Cotterell, 2022). The
  // likeliest need not be among them.
  void KeepTypical(double share);

  // The same with the likeliest first: nucleus sampling (Holtzman et al.,
  // 2020).
  void KeepTopP(double share);

  // Keeps those at least `ratio` times as likely as the likeliest (Nguyen et
  // al., 2024).
  void KeepMinP(double ratio);

  // The candidate at `point` in [0, 1) of the mass that is left.
  TokenId At(double point) const;

 private:
  // log(p(id) / p(likeliest)) at the temperature.
  double LogMass(TokenId id) const;
  double Mass(TokenId id) const;
  double TotalMass() const;
  void FindHighest();
  template <typename Before>
  void KeepShare(double share, const Before& before);

  const absl::Span<const float> logits_;
  const double temperature_;
  std::vector<TokenId>& ids_;
  float highest_ = 0;  // logit of what is left
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CANDIDATES_H_
