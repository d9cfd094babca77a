#ifndef KVASIR_SERVER_CALLER_H_
#define KVASIR_SERVER_CALLER_H_

#include <string>
#include <string_view>

namespace kvasir {

// What a token is for. Every method of kvasir.v1.Inference asks for the first,
// every one of kvasir.v1.CacheAdmin for the second; CancelGeneration takes
// either. grpc.health.v1 and reflection ask for nothing.
enum class Scope { kInference, kAdmin };

// Who makes a call, and what they may do. Plain value; CallGuard::Identify()
// finds the one of a call. Without a file of tokens everybody is the caller
// that this is by default.
//
// A tenant sees only itself: its salt keeps its cache content to itself, its
// request ids mean its own requests. Tenants' names have no '/', so that what
// is joined with one never looks like another tenant's.
struct Caller {
  std::string tenant;  // empty exactly if the server knows no tokens
  bool may_infer = true;
  bool may_admin = true;

  // The salt that the engine is told for a request that asks for `salt`: the
  // tenant, narrowed by what the request says. This is the salt that quotas,
  // flushes and prompts to be warmed name.
  std::string SaltFor(std::string_view salt) const {
    return Join(salt, /*empty_too=*/false);
  }

  // The id that the engine is told for the caller's request `id`.
  std::string EngineId(std::string_view id) const {
    return Join(id, /*empty_too=*/true);
  }

 private:
  std::string Join(std::string_view own, bool empty_too) const {
    if (tenant.empty()) return std::string(own);
    if (own.empty() && !empty_too) return tenant;
    std::string joined = tenant;
    joined += '/';
    joined += own;
    return joined;
  }
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_CALLER_H_
