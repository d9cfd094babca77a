#include "engine/verdict.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "engine/cancel_flag.h"

namespace kvasir {
namespace {

// A client resets its call at its deadline, and that may be heard a little
// before our own clock says so: gRPC rounds the time that it sends by up to 1
// %, and the network takes its share.
constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(20);
constexpr double kDeadlineRounding = 0.01;

// Whether a cancel by the client at `now` is what its deadline brings about.
bool ComesFromDeadline(const Sequence& sequence, absl::Duration now) {
  const absl::Duration deadline = sequence.request().deadline;
  if (deadline == absl::InfiniteDuration()) return false;
  const absl::Duration whole = deadline - sequence.times().submitted;
  return deadline - now <= kDeadlineSlack + whole * kDeadlineRounding;
}

}  // namespace

std::optional<Verdict> Judge(const Sequence& sequence, absl::Duration now) {
  if (sequence.group().failed) {
    return Verdict{
        absl::CancelledError("another sequence of the request failed"),
        Ending::kFailed};
  }
  const CancelFlag& cancel = sequence.cancel();
  const bool wanted = cancel.requested();
  if (wanted && !(cancel.source() == CancelSource::kClient &&
                  ComesFromDeadline(sequence, now))) {
    const std::string why =
        cancel.reason().empty() ? "" : absl::StrCat(": ", cancel.reason());
    switch (cancel.source()) {
      case CancelSource::kClient:
        return Verdict{
            absl::CancelledError(absl::StrCat("cancelled by the client", why)),
            Ending::kClient};
      case CancelSource::kAdmin:
        return Verdict{
            absl::CancelledError(absl::StrCat("cancelled by an operator", why)),
            Ending::kAdmin};
      case CancelSource::kDrain:
        return Verdict{
            absl::UnavailableError(absl::StrCat("ended by a drain", why)),
            Ending::kDrain};
    }
  }
  if (!wanted && now < sequence.request().deadline) {
    if (now < sequence.request().time_limit) return std::nullopt;
    return Verdict{absl::OkStatus(), Ending::kFinished};
  }
  return Verdict{absl::DeadlineExceededError(absl::StrCat(
                     "the deadline passed after ",
                     sequence.usage().completion_tokens, " tokens")),
                 Ending::kDeadline};
}

}  // namespace kvasir
