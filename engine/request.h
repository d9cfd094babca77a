#ifndef KVASIR_ENGINE_REQUEST_H_
#define KVASIR_ENGINE_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/retention.h"
#include "engine/model/logprobs.h"
#include "engine/model/sampling_params.h"

namespace kvasir {

class ServedVersion;

inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopBytes = 1024;  // of each

// When a generation ends by itself.
struct StoppingParams {
  // Most tokens to generate; 0 means as many as the context has room for.
  int64_t max_tokens = 0;
  // Before there are so many, no token is drawn that would end the generation,
  // and no text ends it.
  int64_t min_tokens = 0;
  bool ignore_eos = false;
  // These end the generation beside the model's own end tokens.
  std::vector<TokenId> token_ids = {};
  // Texts that end it, see StopMatcher, and whether they are part of it.
  std::vector<std::string> strings = {};
  bool include_stop = false;
};

// What the client wants to know beside tokens and text.
struct OutputWish {
  // Log-probabilities of generated tokens, and of prompt tokens from this
  // place on; the cache spares no token before which one is wanted.
  std::optional<LogprobWish> logprobs = {};
  std::optional<LogprobWish> prompt_logprobs = {};
  int64_t prompt_logprob_start = 0;
  bool progress = false;  // ProgressEvents
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
  OutputWish output = {};
  CacheUse cache;
  // Sequences to generate for the prompt, 1 to kMaxRequestSequences. The i-th
  // draws with the seed `sampling.seed` + i.
  int32_t sequence_count = 1;
  // Lower goes first; see SequenceRoster.
  int32_t priority = 0;
  bool skip_special_tokens = true;  // control tokens leave no text
  // Steady time (Clock::Now()) after which the request is ended.
  absl::Duration deadline = absl::InfiniteDuration();
  // And after which its sequences end with what they have.
  absl::Duration time_limit = absl::InfiniteDuration();
};

inline constexpr int32_t kMaxRequestSequences = 64;

}  // namespace kvasir

#endif  // KVASIR_ENGINE_REQUEST_H_
