#include "engine/served_version.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"
#include "engine/model_loader.h"
#include "engine/model_runner.h"

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
  KV_CHECK(parts_.runner != nullptr && parts_.cache_tokens != nullptr);
}

RequestLimits ServedVersion::limits() const {
  RequestLimits limits = parts_.limits;
  limits.cache_tokens = parts_.cache_tokens->load(std::memory_order_relaxed);
  return limits;
}

bool ServedVersion::cache_limits_context() const {
  const RequestLimits limits = this->limits();
  return limits.cache_tokens < limits.model_context;
}

}  // namespace kvasir
