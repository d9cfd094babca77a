#include "engine/model/sampling_params.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

constexpr float kMaxPenalty = 2;
constexpr float kMaxBias = 100;

absl::Status CheckNumber(absl::string_view field, float value, bool ok,
                         absl::string_view range) {
  if (ok && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field,
                                                 ": wanted a finite number, ",
                                                 range, ", found ", value));
}

absl::Status CheckShare(absl::string_view field, float value) {
  return CheckNumber(field, value, value > 0 && value <= 1,
                     "above 0 and at most 1");
}

absl::Status CheckPenalty(absl::string_view field, float value) {
  return CheckNumber(field, value, std::abs(value) <= kMaxPenalty, "-2 to 2");
}

absl::Status CheckNotNegative(absl::string_view field, int32_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sampling.", field, ": wanted 0 or more, found ", value));
}

absl::Status CheckCount(absl::string_view field, size_t count, size_t most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("sampling.", field,
                                                 ": wanted at most ", most,
                                                 " entries, found ", count));
}

absl::Status CheckLogitBias(absl::Span<const LogitBias> entries) {
  RETURN_IF_ERROR(CheckCount("logit_bias", entries.size(), kMaxLogitBias));
  absl::flat_hash_set<TokenId> seen;
  for (const LogitBias& entry : entries) {
    RETURN_IF_ERROR(CheckNumber(absl::StrCat("logit_bias[", entry.id, "]"),
                                entry.bias, std::abs(entry.bias) <= kMaxBias,
                                "-100 to 100"));
    if (!seen.insert(entry.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("sampling.logit_bias[", entry.id,
                       "]: wanted each token once, found it again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSamplingParams(const SamplingParams& params) {
  RETURN_IF_ERROR(CheckNumber("temperature", params.temperature,
                              params.temperature >= 0, "0 or more"));
  RETURN_IF_ERROR(CheckNotNegative("top_k", params.top_k));
  RETURN_IF_ERROR(CheckShare("top_p", params.top_p));
  RETURN_IF_ERROR(CheckNumber(
      "min_p", params.min_p, params.min_p >= 0 && params.min_p <= 1, "0 to 1"));
  RETURN_IF_ERROR(CheckShare("typical_p", params.typical_p));
  RETURN_IF_ERROR(CheckPenalty("frequency_penalty", params.frequency_penalty));
  RETURN_IF_ERROR(CheckPenalty("presence_penalty", params.presence_penalty));
  RETURN_IF_ERROR(CheckNumber(
      "repetition_penalty", params.repetition_penalty,
      params.repetition_penalty > 0 && params.repetition_penalty <= kMaxPenalty,
      "above 0 and at most 2"));
  RETURN_IF_ERROR(CheckNotNegative("penalty_window", params.penalty_window));
  RETURN_IF_ERROR(CheckLogitBias(params.logit_bias));
  RETURN_IF_ERROR(CheckCount("allowed_token_ids", params.allowed_ids.size(),
                             kMaxAllowedIds));
  return CheckCount("banned_token_ids", params.banned_ids.size(),
                    kMaxBannedIds);
}

}  // namespace kvasir
