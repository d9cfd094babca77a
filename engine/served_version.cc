#include "engine/served_version.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"
#include "engine/model_loader.h"
#include "engine/step_runner.h"

namespace kvasir {
namespace {

size_t LongestTokenBytes(const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id).size());
  }
  return longest;
}

}  // namespace

ServedVersion::ServedVersion(Parts parts)
    : parts_(std::move(parts)),
      longest_token_bytes_(LongestTokenBytes(*parts_.tokenizer)) {
  KV_CHECK(parts_.runner != nullptr && parts_.promise != nullptr);
}

RequestLimits ServedVersion::limits() const {
  RequestLimits limits = parts_.limits;
  const CachePromise& promise = *parts_.promise;
  limits.cache_tokens = promise.tokens.load(std::memory_order_relaxed);
  limits.pinned_tokens = promise.pinned_tokens.load(std::memory_order_relaxed);
  return limits;
}

}  // namespace kvasir
