#ifndef KVASIR_ENGINE_REQUEST_H_
#define KVASIR_ENGINE_REQUEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/retention.h"
#include "engine/model/sampling_params.h"

namespace kvasir {

class ServedVersion;

// When a generation ends by itself.
struct StoppingParams {
  // Most tokens to generate; 0 means as many as the context has room for.
  int64_t max_tokens = 0;
  bool ignore_eos = false;
  // These end the generation beside the model's own end tokens.
  std::vector<TokenId> token_ids = {};
};

// What of the prefix cache a request may use.
struct CacheUse {
  bool read = true;
  bool write = true;
  std::string salt = {};  // separates tenants; empty is a salt like any other
  // What the request's blocks are kept by afterwards; see LeaseRequest.
  std::optional<Retention> retention = {};
};

// What the caller asked, tokenised. Immutable once submitted; Engine::Submit()
// checks it against the model and the cache.
struct Request {
  std::string id;  // unique among those in flight
  // That it was tokenised for and is computed in, from its first token to its
  // last.
  std::shared_ptr<const ServedVersion> version;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  StoppingParams stopping;
  CacheUse cache;
  bool skip_special_tokens = true;  // control tokens leave no text
  // Steady time (Clock::Now()) after which the request is ended.
  absl::Duration deadline = absl::InfiniteDuration();
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_REQUEST_H_
