#include "server/tenant_gate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "engine/model/utf8.h"
#include "server/status_reason.h"
#include "server/text.h"

namespace kvasir {
namespace {

constexpr const char* kOption = "server.tenant_limits";

// When a request ends is not known, so this is a guess.
constexpr absl::Duration kInFlightRetry = absl::Seconds(1);

// Fewer entries than this are not worth a look for those to forget.
constexpr size_t kMinForget = 1024;

std::string NameOf(std::string_view tenant) {
  return tenant.empty() ? "callers without a tenant"
                        : absl::StrCat("tenant ", QuoteText(tenant));
}

absl::Status Refuse(std::string message, std::string_view tenant,
                    const char* metric, int64_t value, absl::Duration retry) {
  absl::Status status = WithReason(
      absl::ResourceExhaustedError(absl::StrCat(message, " (", kOption, ")")),
      kReasonTenantLimit);
  status = WithLimit(std::move(status),
                     {.name = kOption,
                      .subject = absl::StrCat("tenant:", View(tenant)),
                      .metric = metric,
                      .value = value});
  return WithRetry(std::move(status), retry);
}

absl::Status TooManyTokens(std::string_view tenant, int64_t rate,
                           absl::Duration wait) {
  return Refuse(
      absl::StrCat(NameOf(tenant), ": wanted at most ", rate,
                   " tokens a minute, found them used for ",
                   absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1))),
                   " more"),
      tenant, "tokens_per_minute", rate, wait);
}

}  // namespace

TenantGate::Pass& TenantGate::Pass::operator=(Pass&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  gate_ = std::exchange(other.gate_, nullptr);
  tenant_ = std::move(other.tenant_);
  inside_ = other.inside_.exchange(false);
  bucket_ = other.bucket_;
  held_ = other.held_.exchange(0);
  return *this;
}

absl::Status TenantGate::Pass::TakePrompt(int64_t tokens) {
  if (gate_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<Taken> taken =
      gate_->Take(tenant_, tokens, /*credit=*/false);
  if (!taken.ok()) return taken.status();
  bucket_ = taken->bucket_number;
  held_ = taken->tokens;
  return absl::OkStatus();
}

void TenantGate::Pass::Charge(int64_t tokens) {
  if (gate_ == nullptr) return;
  gate_->Take(tenant_, tokens, /*credit=*/true).IgnoreError();
}

void TenantGate::Pass::Leave() {
  if (const int64_t held = held_.exchange(0); held > 0) {
    gate_->GiveBack(tenant_, {held, bucket_});
  }
  if (inside_.exchange(false)) gate_->Leave(tenant_);
}

TenantGate::TenantGate(std::vector<TenantLimit> limits, const Clock* clock)
    : clock_(clock), forget_at_(kMinForget) {
  SetLimits(std::move(limits));
}

void TenantGate::SetLimits(std::vector<TenantLimit> limits) {
  absl::MutexLock lock(&mu_);
  limits_.clear();
  for (TenantLimit& limit : limits) {
    std::string name = limit.tenant;
    limits_.emplace(std::move(name), std::move(limit));
  }
  for (auto& [tenant, state] : states_) {
    const TenantLimit* limit = LimitFor(tenant);
    if (limit == nullptr || limit->tokens_per_minute == 0) {
      state.bucket.reset();
    } else if (state.bucket.has_value()) {
      state.bucket->SetRate(limit->tokens_per_minute, clock_->Now());
    }
  }
}

const TenantLimit* TenantGate::LimitFor(std::string_view tenant) const {
  auto it = limits_.find(View(tenant));
  if (it == limits_.end()) it = limits_.find(View(kEveryTenant));
  return it == limits_.end() ? nullptr : &it->second;
}

TenantGate::State& TenantGate::StateOf(std::string_view tenant,
                                       const TenantLimit* limit) {
  State& state = states_[std::string(tenant)];
  if (limit != nullptr && limit->tokens_per_minute > 0 &&
      !state.bucket.has_value()) {
    state.bucket.emplace(limit->tokens_per_minute, clock_->Now());
    state.bucket_number = ++buckets_;
  }
  return state;
}

void TenantGate::Forget() {
  if (states_.size() < forget_at_) return;
  const absl::Duration now = clock_->Now();
  absl::erase_if(states_, [now](const auto& entry) {
    const State& state = entry.second;
    return state.in_flight == 0 &&
           (!state.bucket.has_value() || state.bucket->FullAt(now));
  });
  // Seldom enough to cost nothing per request.
  forget_at_ = std::max(kMinForget, 2 * states_.size());
}

absl::StatusOr<TenantGate::Pass> TenantGate::Enter(std::string_view tenant) {
  Pass pass;
  absl::MutexLock lock(&mu_);
  const TenantLimit* limit = LimitFor(tenant);
  Forget();
  State& state = StateOf(tenant, limit);
  if (limit != nullptr && limit->requests > 0 &&
      state.in_flight >= limit->requests) {
    return Refuse(
        absl::StrCat(NameOf(tenant), ": wanted at most ", limit->requests,
                     " requests in flight, found ", state.in_flight),
        tenant, "requests_in_flight", limit->requests, kInFlightRetry);
  }
  if (state.bucket.has_value()) {
    const absl::Duration wait = state.bucket->TimeUntil(1, clock_->Now());
    if (wait > absl::ZeroDuration()) {
      return TooManyTokens(tenant, limit->tokens_per_minute, wait);
    }
  }
  ++state.in_flight;
  pass.gate_ = this;
  pass.tenant_ = std::string(tenant);
  pass.inside_ = true;
  return pass;
}

absl::StatusOr<TenantGate::Taken> TenantGate::Take(const std::string& tenant,
                                                   int64_t tokens,
                                                   bool credit) {
  absl::MutexLock lock(&mu_);
  const TenantLimit* limit = LimitFor(tenant);
  if (limit == nullptr || limit->tokens_per_minute == 0) return Taken();
  State& state = StateOf(tenant, limit);
  TokenBucket& bucket = *state.bucket;
  const absl::Duration now = clock_->Now();
  if (!credit) {
    const absl::Duration wait = bucket.TimeUntil(tokens, now);
    if (wait > absl::ZeroDuration()) {
      return TooManyTokens(tenant, limit->tokens_per_minute, wait);
    }
  }
  bucket.Take(tokens, now);
  return Taken{tokens, state.bucket_number};
}

void TenantGate::GiveBack(const std::string& tenant, const Taken& taken) {
  absl::MutexLock lock(&mu_);
  const auto it = states_.find(tenant);
  if (it == states_.end() || !it->second.bucket.has_value() ||
      it->second.bucket_number != taken.bucket_number) {
    return;
  }
  it->second.bucket->Take(-taken.tokens, clock_->Now());
}

void TenantGate::Leave(const std::string& tenant) {
  absl::MutexLock lock(&mu_);
  const auto it = states_.find(tenant);
  if (--it->second.in_flight == 0 && !it->second.bucket.has_value()) {
    states_.erase(it);
  }
}

size_t TenantGate::tracked() const {
  absl::MutexLock lock(&mu_);
  return states_.size();
}

}  // namespace kvasir
