#include "engine/model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

// YaRN's magnitude grows by this times the logarithm of the factor.
constexpr double kYarnMagnitudeSlope = 0.1;

// The pair whose wave turns `turns` times within the original context.
double PairOfTurns(double turns, const RopeScaling& scaling, int32_t dims) {
  return dims *
         std::log(static_cast<double>(scaling.original_context) /
                  (turns * 2 * std::numbers::pi)) /
         (2 * std::log(scaling.base));
}

// How much of pair `pair` keeps its own frequency, from 1 (all) to 0.
class YarnBlend {
 public:
  YarnBlend(const RopeScaling& scaling, int32_t dims)
      : weight_(scaling.extrapolation) {
    low_ = std::floor(PairOfTurns(scaling.beta_fast, scaling, dims));
    high_ = std::ceil(PairOfTurns(scaling.beta_slow, scaling, dims));
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, dims - 1.0);
  }

  double Kept(int32_t pair) const {
    constexpr double kLeastWidth = 0.001;
    const double position = (pair - low_) / std::max(kLeastWidth, high_ - low_);
    return (1 - std::clamp(position, 0.0, 1.0)) * weight_;
  }

 private:
  double low_ = 0;
  double high_ = 0;
  double weight_;
};

absl::Status CheckPositive(const char* field, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": wanted a positive number, found ", value));
}

absl::Status CheckYarn(const RopeScaling& scaling) {
  RETURN_IF_ERROR(CheckPositive("rope.scaling.original_context_length",
                                static_cast<double>(scaling.original_context)));
  RETURN_IF_ERROR(
      CheckPositive("rope.scaling.yarn_beta_fast", scaling.beta_fast));
  return CheckPositive("rope.scaling.yarn_beta_slow", scaling.beta_slow);
}

absl::Status Check(const RopeScaling& scaling, int32_t pairs) {
  if (scaling.type != "none" && scaling.type != "linear" &&
      scaling.type != "yarn") {
    return absl::UnimplementedError(
        absl::StrCat("rope.scaling.type: \"", absl::CHexEscape(scaling.type),
                     "\" found, none, linear and yarn are supported"));
  }
  if (!(scaling.base > 1) || !std::isfinite(scaling.base)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rope.freq_base: wanted a number above 1, found ", scaling.base));
  }
  RETURN_IF_ERROR(CheckPositive("rope.scaling.factor", scaling.factor));
  RETURN_IF_ERROR(
      CheckPositive("rope.scaling.attn_factor", scaling.attention_factor));
  if (scaling.type == "yarn") RETURN_IF_ERROR(CheckYarn(scaling));
  if (!scaling.divisors.empty() &&
      scaling.divisors.size() != static_cast<size_t>(pairs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor rope_freqs.weight: wanted ", pairs,
                     " values, found ", scaling.divisors.size()));
  }
  for (const float divisor : scaling.divisors) {
    RETURN_IF_ERROR(CheckPositive("tensor rope_freqs.weight", divisor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeConfig> ResolveRope(const RopeScaling& scaling,
                                       RopeSpec::Pairing pairing,
                                       int32_t rotated_dim) {
  const int32_t pairs = rotated_dim / 2;
  RETURN_IF_ERROR(Check(scaling, pairs));
  RopeConfig rope;
  rope.pairing = pairing;
  rope.rotated_dim = rotated_dim;
  const bool yarn = scaling.type == "yarn";
  const double factor = scaling.type == "none" ? 1 : scaling.factor;
  double magnitude = scaling.attention_factor;
  if (yarn && scaling.extrapolation > 0 && scaling.factor > 1) {
    magnitude *= 1 + kYarnMagnitudeSlope * std::log(scaling.factor);
  }
  rope.magnitude = static_cast<float>(magnitude);
  const YarnBlend blend(scaling, rotated_dim);
  for (int32_t pair = 0; pair < pairs; ++pair) {
    double own = std::pow(scaling.base, -2.0 * pair / rotated_dim);
    if (!scaling.divisors.empty()) own /= scaling.divisors[pair];
    const double kept = yarn ? blend.Kept(pair) : 0;
    rope.inverse_frequencies.push_back(
        static_cast<float>(own / factor * (1 - kept) + own * kept));
  }
  return rope;
}

}  // namespace kvasir
