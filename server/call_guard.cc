#include "server/call_guard.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/status_reason.h"
#include "server/text.h"

namespace kvasir {
namespace {

constexpr std::string_view kScheme = "Bearer ";

bool Has(const Caller& caller, Scope scope) {
  return scope == Scope::kAdmin ? caller.may_admin : caller.may_infer;
}

const char* NameOf(Scope scope) {
  return scope == Scope::kAdmin ? "admin" : "inference";
}

}  // namespace

absl::StatusOr<std::string_view> BearerToken(
    std::optional<std::string_view> header) {
  if (!header.has_value()) {
    return WithReason(
        absl::UnauthenticatedError(
            "wanted the metadata `authorization: Bearer TOKEN`, found none"),
        kReasonTokenMissing);
  }
  std::string_view token =
      header->substr(std::min(kScheme.size(), header->size()));
  while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
  if (!absl::StartsWithIgnoreCase(View(*header), View(kScheme)) ||
      token.empty()) {
    return WithReason(
        absl::UnauthenticatedError("wanted the metadata `authorization: Bearer "
                                   "TOKEN`, found it in another form"),
        kReasonTokenMalformed);
  }
  return token;
}

void CallGuard::SetTokens(std::shared_ptr<const TokenTable> tokens) {
  absl::MutexLock lock(&mu_);
  tokens_ = std::move(tokens);
}

absl::StatusOr<Caller> CallGuard::Identify(
    const grpc::CallbackServerContext& context) const {
  std::shared_ptr<const TokenTable> tokens;
  {
    absl::MutexLock lock(&mu_);
    tokens = tokens_;
  }
  if (tokens == nullptr) return Caller();
  std::optional<std::string_view> header;
  const auto [first, last] =
      context.client_metadata().equal_range("authorization");
  if (first != last) {
    header = std::string_view(first->second.data(), first->second.size());
  }
  ASSIGN_OR_RETURN(const std::string_view token, BearerToken(header));
  std::optional<Caller> caller = tokens->Find(token);
  if (caller.has_value()) return *std::move(caller);
  return WithReason(absl::UnauthenticatedError("the token is not known"),
                    kReasonTokenUnknown);
}

absl::Status CallGuard::Admit(const grpc::CallbackServerContext& context,
                              Scope scope, std::optional<Scope> or_this) {
  const absl::StatusOr<Caller> caller = Identify(context);
  if (!caller.ok()) return Count(caller.status());
  if (Has(*caller, scope) || (or_this.has_value() && Has(*caller, *or_this))) {
    return absl::OkStatus();
  }
  return Count(WithReason(
      absl::PermissionDeniedError(absl::StrCat(
          "wanted a token with the scope ", NameOf(scope), ", found one with ",
          NameOf(scope == Scope::kAdmin ? Scope::kInference : Scope::kAdmin))),
      kReasonScopeMissing));
}

absl::Status CallGuard::Count(absl::Status refusal) {
  const std::string reason = ReasonOf(refusal);
  if (reason == kReasonTokenMissing) ++missing_;
  if (reason == kReasonTokenMalformed) ++malformed_;
  if (reason == kReasonTokenUnknown) ++unknown_;
  if (reason == kReasonScopeMissing) ++scope_;
  return refusal;
}

AuthFailures CallGuard::failures() const {
  return {.missing = missing_,
          .malformed = malformed_,
          .unknown = unknown_,
          .scope = scope_};
}

}  // namespace kvasir
