#include "server/warm_codec.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/retention_codec.h"
#include "server/warm_file.h"

namespace kvasir {
namespace {

static_assert(kMaxWarmFilePrefixes == kMaxWarmPrefixes);

// What Generate would make of it: the same rules, the same ids.
absl::StatusOr<std::vector<TokenId>> DecodeTokens(const v1::WarmPrompt& wire,
                                                  const ServedModel& model) {
  v1::GenerateRequest request;
  switch (wire.prompt_case()) {
    case v1::WarmPrompt::kText:
      request.set_text(wire.text());
      break;
    case v1::WarmPrompt::kTokenIds:
      *request.mutable_token_ids() = wire.token_ids();
      break;
    case v1::WarmPrompt::kChat:
      *request.mutable_chat() = wire.chat();
      break;
    case v1::WarmPrompt::PROMPT_NOT_SET:
      break;  // refused by name
  }
  ASSIGN_OR_RETURN(GenerateCall call, DecodeGenerate(request, {}, model));
  return std::move(call.request.prompt);
}

absl::StatusOr<WarmPrefix> Decode(const v1::WarmPrompt& wire,
                                  const v1::WarmCacheRequest& defaults,
                                  const ServedModel& model) {
  WarmPrefix prefix;
  prefix.salt = wire.has_salt() ? wire.salt() : defaults.salt();
  if (prefix.salt.size() > kMaxSaltBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("salt: wanted at most ", kMaxSaltBytes, " bytes, found ",
                     prefix.salt.size()));
  }
  std::optional<int32_t> priority;
  // A level of its own is not to be overruled by a number for all.
  const bool own_level = wire.retention() != v1::RETENTION_UNSPECIFIED;
  if (wire.has_priority()) {
    priority = wire.priority();
  } else if (defaults.has_priority() && !own_level) {
    priority = defaults.priority();
  }
  ASSIGN_OR_RETURN(
      const WantedRetention wanted,
      DecodeRetention(own_level ? wire.retention() : defaults.retention(),
                      priority,
                      wire.has_ttl()       ? &wire.ttl()
                      : defaults.has_ttl() ? &defaults.ttl()
                                           : nullptr));
  if (wanted.retention.has_value()) {
    prefix.retention = wanted.retention;
    // A time to live says nothing of how dear it is meanwhile.
    if (!own_level && !priority.has_value() &&
        defaults.retention() == v1::RETENTION_UNSPECIFIED) {
      prefix.retention->priority = kWarmedPriority;
    }
  }
  prefix.pin = wanted.pin;
  ASSIGN_OR_RETURN(prefix.tokens, DecodeTokens(wire, model));
  return prefix;
}

}  // namespace

absl::StatusOr<WarmOrder> DecodeWarmSettings(
    const v1::WarmCacheRequest& wire,
    std::shared_ptr<const ServedVersion> version) {
  const auto most = static_cast<int>(kMaxWarmPrefixes);
  if (wire.prompts_size() < 1 || wire.prompts_size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompts: wanted 1 to ", most, ", found ", wire.prompts_size()));
  }
  if (wire.parallelism() < 0 || wire.parallelism() > kMaxWarmParallelism) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallelism: wanted 0 to ", kMaxWarmParallelism,
                     ", found ", wire.parallelism()));
  }
  WarmOrder order;
  order.version = std::move(version);
  order.parallelism = wire.parallelism() == 0 ? 1 : wire.parallelism();
  return order;
}

absl::StatusOr<WarmPrefix> DecodeWarmPrompt(const v1::WarmCacheRequest& wire,
                                            int index,
                                            const ServedModel& model) {
  absl::StatusOr<WarmPrefix> prefix = Decode(wire.prompts(index), wire, model);
  if (prefix.ok()) return prefix;
  return absl::Status(
      prefix.status().code(),
      absl::StrCat("prompts[", index, "].", prefix.status().message()));
}

v1::WarmCacheResponse EncodeWarmReport(const WarmReport& report) {
  v1::WarmCacheResponse wire;
  wire.mutable_progress()->set_phase("warming");
  wire.mutable_progress()->set_done_count(report.done_count);
  wire.mutable_progress()->set_total_count(report.prefix_count);
  wire.set_computed_tokens(report.computed_tokens);
  return wire;
}

v1::WarmCacheResponse EncodeWarmEnd(const absl::Status& status,
                                    absl::Span<const WarmedPrefix> prefixes) {
  v1::WarmCacheResponse wire;
  v1::OperationProgress& progress = *wire.mutable_progress();
  progress.set_phase(status.ok() ? "done" : "incomplete");
  progress.set_total_count(static_cast<int64_t>(prefixes.size()));
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const WarmedPrefix& one = prefixes[i];
    v1::WarmedPrefix& prefix = *wire.add_prefixes();
    prefix.set_prompt_index(static_cast<int32_t>(i));
    prefix.set_token_count(one.token_count);
    if (one.resident_tokens > 0) {
      v1::TierCount& resident = *prefix.add_resident();
      resident.set_tier(v1::CACHE_TIER_DEVICE);
      resident.set_token_count(one.resident_tokens);
    }
    prefix.set_computed_tokens(one.computed_tokens);
    wire.set_computed_tokens(wire.computed_tokens() + one.computed_tokens);
    progress.set_done_count(progress.done_count() + one.status.ok());
    if (one.status.ok()) continue;
    prefix.set_code(static_cast<int>(one.status.code()));
    prefix.set_message(std::string(one.status.message()));
    v1::OperationFailure& failure = *progress.add_failures();
    failure.set_item(absl::StrCat(i));
    failure.set_code(prefix.code());
    failure.set_message(prefix.message());
  }
  return wire;
}

}  // namespace kvasir
