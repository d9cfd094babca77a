#ifndef KVASIR_SERVER_TENANT_GATE_H_
#define KVASIR_SERVER_TENANT_GATE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "cache/base/clock.h"
#include "server/tenant_limits.h"
#include "server/token_bucket.h"

namespace kvasir {

// Holds each tenant to its limits: requests in flight, and tokens a minute as a
// TokenBucket. A prompt's tokens are taken when they are counted, and a prompt
// waits until the bucket holds them; an output's are taken as they come, into a
// debt if need be, since how long it gets is not known before.
//
// Any thread; one of the server's objects that cross threads. Requests are
// counted also where nothing limits them, for limits to come. What it remembers
// is bounded: a tenant with nothing in flight and a full bucket is forgotten.
class TenantGate {
 public:
  // One request in flight. Movable; counts until it is destroyed or Leave()s.
  // The gate outlives it. Once it is where it stays, any thread.
  class Pass {
   public:
    Pass() = default;  // of nobody; charging it does nothing
    Pass(Pass&& other) noexcept { *this = std::move(other); }
    Pass& operator=(Pass&& other) noexcept;
    ~Pass() { Leave(); }

    // Takes a prompt's tokens, once. RESOURCE_EXHAUSTED, with the time until
    // the bucket allows it, if they are not there; nothing is taken then. They
    // are given back when the pass ends, unless somebody KeepsPrompt().
    absl::Status TakePrompt(int64_t tokens);

    // The prompt is being computed: its tokens are used up.
    void KeepPrompt() { held_ = 0; }

    // Takes an output's tokens. Also after Leave().
    void Charge(int64_t tokens);

    // The request has ended, or come to nothing.
    void Leave();

   private:
    friend class TenantGate;
    TenantGate* gate_ = nullptr;
    std::string tenant_;
    std::atomic<bool> inside_{false};
    std::atomic<int64_t> held_{0};  // tokens of a prompt that nobody computes
    int64_t bucket_ = 0;  // that they are of; fixed before they are held
  };

  // `clock` outlives the gate.
  TenantGate(std::vector<TenantLimit> limits, const Clock* clock);

  // From now on. What is in flight stays counted, and who has a limit of tokens
  // before and after keeps what is in the bucket, or the debt.
  void SetLimits(std::vector<TenantLimit> limits) ABSL_LOCKS_EXCLUDED(mu_);

  // Lets a request of `tenant` in. RESOURCE_EXHAUSTED if as many as allowed are
  // in flight, or if the bucket is in debt; the errors name the limit and say
  // when to try again.
  absl::StatusOr<Pass> Enter(std::string_view tenant) ABSL_LOCKS_EXCLUDED(mu_);

  // Tenants that something is remembered of.
  size_t tracked() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct State {
    int64_t in_flight = 0;
    std::optional<TokenBucket> bucket;  // with a limit of tokens only
    int64_t bucket_number = 0;          // each new one has its own
  };
  // What was taken, and from which bucket.
  struct Taken {
    int64_t tokens = 0;  // none where there is no bucket
    int64_t bucket_number = 0;
  };

  // Null: no limits.
  const TenantLimit* LimitFor(std::string_view tenant) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The tenant's entry, with a bucket if `limit`, which may be null, asks for
  // one; made if there is none.
  State& StateOf(std::string_view tenant, const TenantLimit* limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes what is there, or all of it on `credit`.
  absl::StatusOr<Taken> Take(const std::string& tenant, int64_t tokens,
                             bool credit) ABSL_LOCKS_EXCLUDED(mu_);
  // Unless another bucket stands in the place of that one.
  void GiveBack(const std::string& tenant, const Taken& taken)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave(const std::string& tenant) ABSL_LOCKS_EXCLUDED(mu_);

  const Clock* const clock_;
  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::string, TenantLimit> limits_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, State> states_ ABSL_GUARDED_BY(mu_);
  int64_t buckets_ ABSL_GUARDED_BY(mu_) = 0;  // ever made
  size_t forget_at_ ABSL_GUARDED_BY(mu_);     // entries, next time to look
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_TENANT_GATE_H_
