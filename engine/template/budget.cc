#include "engine/template/budget.h"

#include "absl/strings/str_cat.h"

namespace kvasir::jinja {

absl::Status Budget::TooManySteps() {
  return absl::ResourceExhaustedError(absl::StrCat("wanted at most ", kMaxSteps,
                                                   " steps (kMaxSteps); found "
                                                   "more"));
}

absl::Status Budget::TooManyBytes() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("wanted at most ", max_produced_,
                   " bytes of values (kMaxProducedBytes); found more"));
}

}  // namespace kvasir::jinja
