#ifndef KVASIR_SERVER_CALL_GUARD_H_
#define KVASIR_SERVER_CALL_GUARD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"

#include "server/caller.h"
#include "server/token_table.h"

namespace kvasir {

// Reasons that errors of this guard carry; see status_reason.h.
inline constexpr std::string_view kReasonTokenMissing = "TOKEN_MISSING";
inline constexpr std::string_view kReasonTokenMalformed = "TOKEN_MALFORMED";
inline constexpr std::string_view kReasonTokenUnknown = "TOKEN_UNKNOWN";
inline constexpr std::string_view kReasonScopeMissing = "SCOPE_MISSING";

// Calls that were refused, by why. Plain value.
struct AuthFailures {
  int64_t missing = 0;
  int64_t malformed = 0;
  int64_t unknown = 0;
  int64_t scope = 0;
};

// The token of an `authorization` header, `Bearer TOKEN`; the scheme's case
// does not matter. UNAUTHENTICATED for anything else, none of which it quotes.
absl::StatusOr<std::string_view> BearerToken(
    std::optional<std::string_view> header);

// Finds out who calls and whether they may. Any thread; outlives the calls.
class CallGuard {
 public:
  // Until SetTokens() everybody is the default Caller.
  CallGuard() = default;

  // From now on, also for calls on connections that are open. Not null.
  void SetTokens(std::shared_ptr<const TokenTable> tokens)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whose call it is. UNAUTHENTICATED without a token that is known. Cheap:
  // a SHA-256 and a walk over the tokens.
  absl::StatusOr<Caller> Identify(const grpc::CallbackServerContext& context)
      const ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the call may be made: it has one of the scopes. UNAUTHENTICATED or
  // PERMISSION_DENIED with a reason, and counted.
  absl::Status Admit(const grpc::CallbackServerContext& context, Scope scope,
                     std::optional<Scope> or_this = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mu_);

  AuthFailures failures() const;

 private:
  absl::Status Count(absl::Status refusal);

  mutable absl::Mutex mu_;
  std::shared_ptr<const TokenTable> tokens_ ABSL_GUARDED_BY(mu_);
  std::atomic<int64_t> missing_{0};
  std::atomic<int64_t> malformed_{0};
  std::atomic<int64_t> unknown_{0};
  std::atomic<int64_t> scope_{0};
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_CALL_GUARD_H_
