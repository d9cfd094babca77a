#ifndef KVASIR_SERVER_TOKEN_BUCKET_H_
#define KVASIR_SERVER_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace kvasir {

// How much somebody may still take who has `rate` units a minute. It begins
// full, with a minute's worth, and fills evenly; it never holds more. Taking
// more than there is makes a debt, which is paid before anything is left.
//
// Plain value, one thread at a time; `now` is steady time and does not go
// backwards.
class TokenBucket {
 public:
  TokenBucket(int64_t rate, absl::Duration now)
      : rate_(static_cast<double>(rate)), level_(rate_), filled_(now) {}

  double LevelAt(absl::Duration now) const {
    const double minutes = absl::FDivDuration(now - filled_, absl::Minutes(1));
    return std::min(rate_, level_ + rate_ * minutes);
  }

  // How long until `units` are there, or a full bucket if that is less: nobody
  // is refused for ever. Zero: they are there now.
  absl::Duration TimeUntil(int64_t units, absl::Duration now) const {
    const double wanted = std::min(static_cast<double>(units), rate_);
    const double missing = wanted - LevelAt(now);
    if (missing <= 0) return absl::ZeroDuration();
    // A hair more, so that who waits so long does not find it a hair too few.
    return absl::Minutes(missing / rate_) + absl::Milliseconds(1);
  }

  // Negative: gives back.
  void Take(int64_t units, absl::Duration now) {
    level_ = std::min(rate_, LevelAt(now) - static_cast<double>(units));
    filled_ = now;
  }

  // From now on. A debt stays and a full bucket stays full; what is there
  // stays, as far as the bucket holds it.
  void SetRate(int64_t rate, absl::Duration now) {
    const bool full = FullAt(now);
    level_ = LevelAt(now);
    rate_ = static_cast<double>(rate);
    level_ = full ? rate_ : std::min(rate_, level_);
    filled_ = now;
  }

  bool FullAt(absl::Duration now) const { return LevelAt(now) >= rate_; }

 private:
  double rate_;  // units a minute, and the most it holds
  double level_;
  absl::Duration filled_;  // steady; when `level_` was right
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_TOKEN_BUCKET_H_
