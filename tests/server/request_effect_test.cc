// That no field of a Generate request is understood and then forgotten.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "server/request_codec.h"
#include "tests/server/request_variants.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

std::string Tell(const std::optional<LogprobWish>& wish) {
  if (!wish.has_value()) return "none";
  return absl::StrCat(wish->top_count, "+", absl::StrJoin(wish->ids, ","));
}

std::string Tell(const std::optional<Retention>& retention) {
  if (!retention.has_value()) return "none";
  return absl::StrCat(retention->priority, " for ",
                      absl::FormatDuration(retention->ttl));
}

std::string Tell(const SamplingParams& sampling) {
  std::string bias;
  for (const LogitBias& entry : sampling.logit_bias) {
    absl::StrAppend(&bias, entry.id, ":", entry.bias, " ");
  }
  return absl::StrJoin(
      {absl::StrCat(sampling.temperature), absl::StrCat(sampling.top_k),
       absl::StrCat(sampling.top_p), absl::StrCat(sampling.min_p),
       absl::StrCat(sampling.typical_p), absl::StrCat(sampling.seed),
       absl::StrCat(sampling.frequency_penalty),
       absl::StrCat(sampling.presence_penalty),
       absl::StrCat(sampling.repetition_penalty),
       absl::StrCat(sampling.penalty_window), bias,
       absl::StrJoin(sampling.allowed_ids, ","),
       absl::StrJoin(sampling.banned_ids, ",")},
      " | ");
}

std::string Tell(const StoppingParams& stopping) {
  return absl::StrJoin(
      {absl::StrCat(stopping.max_tokens), absl::StrCat(stopping.min_tokens),
       absl::StrCat(stopping.ignore_eos), absl::StrCat(stopping.include_stop),
       absl::StrJoin(stopping.token_ids, ","),
       absl::StrJoin(stopping.strings, ",")},
      " | ");
}

// All that the engine and the stream of events know of a call.
std::string Tell(const GenerateCall& call) {
  const Request& request = call.request;
  return absl::StrJoin({absl::StrJoin(request.prompt, ","),
                        Tell(request.sampling),
                        Tell(request.stopping),
                        Tell(request.output.logprobs),
                        Tell(request.output.prompt_logprobs),
                        absl::StrCat(request.output.prompt_logprob_start),
                        absl::StrCat(request.output.progress),
                        absl::StrCat(request.cache.read),
                        absl::StrCat(request.cache.write),
                        request.cache.salt,
                        Tell(request.cache.retention),
                        absl::StrCat(request.sequence_count),
                        absl::StrCat(request.priority),
                        absl::StrCat(request.skip_special_tokens),
                        absl::FormatDuration(request.deadline),
                        absl::FormatDuration(request.time_limit),
                        absl::StrCat(call.stream),
                        absl::StrCat(call.return_text),
                        absl::StrCat(call.return_token_ids),
                        absl::StrCat(call.stream_interval),
                        absl::StrCat(call.usage_every_chunk),
                        absl::StrCat(call.timings),
                        absl::StrCat(call.echo),
                        absl::StrCat(call.truncation.most_tokens),
                        absl::StrCat(call.truncation.from_right)},
                       "\n");
}

// What the service itself looks at, before the codec: the live tests show it.
const std::set<std::string>& TheServices() {
  static const auto* const paths =
      new std::set<std::string>{"request_id", "model", "cache.version"};
  return *paths;
}

class RequestEffectTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Decode(const v1::GenerateRequest& request) const {
    const CallContext context = {
        .request_id = "a", .random_seed = 9, .now = absl::Seconds(1000)};
    ASSIGN_OR_RETURN(const GenerateCall call,
                     DecodeGenerate(request, context, ModelOf(*version_)));
    return Tell(call);
  }

  static v1::GenerateRequest Base() {
    v1::GenerateRequest request;
    request.set_text("The old harbour");
    request.mutable_sampling()->set_seed(1);
    request.mutable_stopping()->set_max_tokens(2);
    return request;
  }

  static void Prepare(const std::string& path, v1::GenerateRequest& request) {
    PrepareVariant(path, request);
    // They are a stream's, and refused without one.
    for (const char* streamed : {"output.progress", "output.stream_interval",
                                 "output.usage_every_chunk"}) {
      if (path == streamed) request.set_stream(true);
    }
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::shared_ptr<const ServedVersion> version_ =
      MakeTinyVersion(tokenizer_, MakeTinyInfo(*tokenizer_));
};

// A client that sets a limit believes in it.
TEST_F(RequestEffectTest, EveryFieldThatIsTakenChangesWhatTheEngineGets) {
  struct Seen {
    int taken = 0;
    int effects = 0;
  };
  std::map<std::string, Seen> fields;
  ForEachVariant(Base(), Prepare, [&](const RequestVariant& variant) {
    const absl::StatusOr<std::string> with = Decode(variant.request);
    if (!with.ok() || variant.empty) return;
    v1::GenerateRequest request = Base();
    Prepare(variant.path, request);
    const absl::StatusOr<std::string> without = Decode(request);
    Seen& seen = fields[variant.path];
    ++seen.taken;
    seen.effects += !without.ok() || *with != *without;
  });
  EXPECT_GT(fields.size(), 40u);
  for (const auto& [path, seen] : fields) {
    // Of what is not there yet some values are neutral.
    if (TheServices().contains(path) || IsNotThereYet(path)) continue;
    EXPECT_GT(seen.effects, 0)
        << path << " is taken " << seen.taken << " times and changes nothing";
  }
}

}  // namespace
}  // namespace kvasir
