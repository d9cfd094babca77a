#include "engine/model/drawable_tokens.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace kvasir {
namespace {

TokenSet Only(const TokenSet& tokens, absl::Span<const TokenId> ids) {
  TokenSet only = TokenSet::None(tokens.bound());
  for (const TokenId id : ids) {
    if (tokens.Contains(id)) only.Add(id);
  }
  return only;
}

void RemoveAll(absl::Span<const TokenId> ids, TokenSet& tokens) {
  for (const TokenId id : ids) {
    if (tokens.Contains(id)) tokens.Remove(id);
  }
}

absl::Status NothingLeft(const SamplingParams& params, const char* without) {
  const bool allows = !params.allowed_ids.empty();
  return absl::InvalidArgumentError(absl::StrCat(
      "sampling.", allows ? "allowed_token_ids" : "banned_token_ids",
      ": wanted a token that is left to draw", without, ", found none of ",
      allows ? absl::StrCat(params.allowed_ids.size(), " allowed")
             : std::string("the vocabulary"),
      " with ", params.banned_ids.size(), " banned"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenSet>> DrawableTokens(
    std::shared_ptr<const TokenSet> tokens, int32_t count,
    const SamplingParams& params, absl::Span<const TokenId> withheld) {
  const bool restricted =
      !params.allowed_ids.empty() || !params.banned_ids.empty();
  if (!restricted && withheld.empty()) return tokens;
  TokenSet left = tokens != nullptr ? *tokens : TokenSet(count);
  if (!params.allowed_ids.empty()) left = Only(left, params.allowed_ids);
  RemoveAll(params.banned_ids, left);
  if (restricted) {
    if (left.empty()) return NothingLeft(params, "");
    tokens = std::make_shared<const TokenSet>(left);
  }
  RemoveAll(withheld, left);
  if (left.empty()) {
    return NothingLeft(params, " before stopping.min_tokens");
  }
  return tokens;
}

}  // namespace kvasir
