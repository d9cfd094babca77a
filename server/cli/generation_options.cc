#include "server/cli/generation_options.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/cli/field_options.h"
#include "server/cli/option_values.h"

namespace kvasir::cli {
namespace {

using google::protobuf::Duration;
using google::protobuf::EnumDescriptor;

using Ids = std::vector<uint32_t>;
using IdField = google::protobuf::RepeatedField<uint32_t>;

constexpr const char* kRequestGroup = "Request";
constexpr const char* kSamplingGroup = "Sampling";
constexpr const char* kStoppingGroup = "Stopping";
constexpr const char* kOutputGroup = "Output";
constexpr const char* kCacheGroup = "Prefix cache";

auto AddIdsTo(IdField* field) {
  return [field](const Ids& ids) { field->Add(ids.begin(), ids.end()); };
}

auto ReadAs(const EnumDescriptor* type) {
  return [type](const std::string& text) { return ReadEnum(*type, text); };
}

void AddRequest(CLI::App& command, v1::GenerateRequest& request) {
  FieldOptions options(command, kRequestGroup);
  options.Once("--model", "NAME", "Model to ask; default: the first one",
               ReadWord, [&](const std::string& v) { request.set_model(v); });
  options.Once("--priority", "N",
               "Lower goes first when requests wait; default 0", ReadInt,
               [&](int32_t v) { request.set_priority(v); });
  options.Once("--max-time", "TIME",
               "End after so long, such as 30s, with the output so far",
               ReadTime,
               [&](const Duration& v) { *request.mutable_max_time() = v; });
  options.Many("--label", "KEY=VALUE",
               "Word for the server's log; may be repeated", ReadLabel,
               [&](const std::pair<std::string, std::string>& v) {
                 (*request.mutable_labels())[v.first] = v.second;
               });
  options.Once("--truncate-prompt-tokens", "N",
               "Cut a longer prompt down to so many tokens; -1: to what the "
               "context has room for",
               ReadInt, [&](int32_t v) {
                 request.mutable_output()->set_truncate_prompt_tokens(v);
               });
}

// What only generate has.
void AddSingleRequest(CLI::App& command, v1::GenerateRequest& request) {
  FieldOptions options(command, kRequestGroup);
  options.Once(
      "--request-id", "ID",
      "Names the request in logs and for `kvasir cancel`; default: the "
      "server makes one",
      ReadWord, [&](const std::string& v) { request.set_request_id(v); });
  static const std::string sides = EnumWords(*v1::TruncateSide_descriptor());
  options.Once("--truncate-side", sides.c_str(),
               "Which end of the prompt is cut off; default left",
               ReadAs(v1::TruncateSide_descriptor()), [&](int v) {
                 request.mutable_output()->set_truncate_side(
                     static_cast<v1::TruncateSide>(v));
               });
}

void AddDraw(CLI::App& command, v1::SamplingParams& sampling) {
  FieldOptions options(command, kSamplingGroup);
  options.Once("--temp,--temperature", "NUMBER",
               "0 takes the likeliest token; default 1", ReadNumber,
               [&](float v) { sampling.set_temperature(v); });
  options.Once("--top-k", "N", "Draw among so many likeliest tokens", ReadInt,
               [&](int32_t v) { sampling.set_top_k(v); });
  options.Once("--typical-p", "SHARE",
               "Draw among the most typical tokens, up to this share of "
               "probability",
               ReadNumber, [&](float v) { sampling.set_typical_p(v); });
  options.Once("--top-p", "SHARE",
               "Draw among the likeliest, up to this share of probability",
               ReadNumber, [&](float v) { sampling.set_top_p(v); });
  options.Once("--min-p", "SHARE",
               "Draw among those this share as likely as the likeliest",
               ReadNumber, [&](float v) { sampling.set_min_p(v); });
  options.Once("--seed", "N", "Makes the draws repeatable", ReadSeed,
               [&](uint64_t v) { sampling.set_seed(v); });
}

void AddLogits(CLI::App& command, v1::SamplingParams& sampling) {
  FieldOptions options(command, kSamplingGroup);
  options.Once("--frequency-penalty", "NUMBER",
               "Taken from a token's logit each time it was generated",
               ReadNumber, [&](float v) { sampling.set_frequency_penalty(v); });
  options.Once("--presence-penalty", "NUMBER", "Taken once if it was generated",
               ReadNumber, [&](float v) { sampling.set_presence_penalty(v); });
  options.Once("--repetition-penalty", "NUMBER",
               "Divides the logits of tokens of prompt and output; 1 is off",
               ReadNumber,
               [&](float v) { sampling.set_repetition_penalty(v); });
  options.Once("--penalty-window", "N",
               "Penalties look at so many of the last tokens; default all",
               ReadInt, [&](int32_t v) { sampling.set_penalty_window(v); });
  options.Many("--logit-bias", "ID=AMOUNT",
               "Added to a token's logit; may be repeated, and the last one "
               "of an id counts",
               ReadBias, [&](const std::pair<uint32_t, float>& v) {
                 (*sampling.mutable_logit_bias())[v.first] = v.second;
               });
  options.Many("--allowed-token-ids", "IDS",
               "Draw only these, such as 260,28; may be repeated",
               ReadSomeTokenIds,
               AddIdsTo(sampling.mutable_allowed_token_ids()));
  options.Many("--banned-token-ids", "IDS", "Never draw these; may be repeated",
               ReadSomeTokenIds, AddIdsTo(sampling.mutable_banned_token_ids()));
}

void AddStopping(CLI::App& command, v1::StoppingParams& stopping) {
  FieldOptions options(command, kStoppingGroup);
  options.Once("--max-tokens", "N",
               "Most tokens to generate; default: until the context is full",
               ReadInt, [&](int32_t v) { stopping.set_max_tokens(v); });
  options.Once("--min-tokens", "N", "Nothing ends the output before so many",
               ReadInt, [&](int32_t v) { stopping.set_min_tokens(v); });
  options.Many("--stop", "TEXT", "End right before this text; may be repeated",
               ReadWord,
               [&](const std::string& v) { stopping.add_strings(v); });
  options.Many("--stop-token-ids", "IDS",
               "End with one of these; may be repeated", ReadSomeTokenIds,
               AddIdsTo(stopping.mutable_token_ids()));
  options.Flag("--include-stop", "End right behind the text of --stop",
               [&] { stopping.set_include_stop(true); });
  options.Flag("--ignore-eos", "Go on past the model's end token",
               [&] { stopping.set_ignore_eos(true); });
}

void AddOutput(CLI::App& command, v1::OutputOptions& output) {
  FieldOptions options(command, kOutputGroup);
  options.Once("--logprobs", "N",
               "Show how likely the model found each token, and so many of "
               "the likeliest in its place",
               ReadInt, [&](int32_t v) { output.set_logprobs(v); });
  options.Many("--logprob-token-ids", "IDS",
               "Tokens to tell of at each place; may be repeated",
               ReadSomeTokenIds, AddIdsTo(output.mutable_logprob_token_ids()));
  options.Once("--stream-interval", "N", "Send text so many tokens at a time",
               ReadInt, [&](int32_t v) { output.set_stream_interval(v); });
  options.Flag("--progress", "Tell how much of the prompt is computed",
               [&] { output.set_progress(true); });
}

void AddSingleOutput(CLI::App& command, v1::OutputOptions& output) {
  FieldOptions options(command, kOutputGroup);
  options.Once("--prompt-logprobs", "N",
               "As --logprobs, of the prompt's tokens", ReadInt,
               [&](int32_t v) { output.set_prompt_logprobs(v); });
  options.Once("--prompt-logprob-start", "N",
               "Those of the prompt from this token on; default 0", ReadInt,
               [&](int32_t v) { output.set_prompt_logprob_start(v); });
  options.Flag("--special", "Show control tokens as text",
               [&] { output.set_skip_special_tokens(false); });
  options.Flag("--echo", "Show the prompt before the output",
               [&] { output.set_echo(true); });
  options.Flag("--return-token-ids", "Show token ids, too",
               [&] { output.set_return_token_ids(true); });
  options.Flag("--no-text", "Show token ids in place of text",
               [&] { output.set_return_text(false); });
  options.Flag("--usage-every-chunk",
               "With -o json --stream: counts in every event",
               [&] { output.set_usage_every_chunk(true); });
}

void AddCache(CLI::App& command, v1::CacheOptions& cache) {
  FieldOptions options(command, kCacheGroup);
  static const std::string modes = EnumWords(*v1::CacheMode_descriptor());
  CLI::Option* const mode = options.Once(
      "--cache-mode", modes.c_str(),
      "What of the cache to use and to fill; default read-write",
      ReadAs(v1::CacheMode_descriptor()),
      [&](int v) { cache.set_mode(static_cast<v1::CacheMode>(v)); });
  options
      .Flag("--no-cache", "The same as --cache-mode bypass",
            [&] { cache.set_mode(v1::CACHE_MODE_BYPASS); })
      ->excludes(mode);
  options.Either("--store-completion", "Leave the output in the cache",
                 "--no-store-completion", "Leave only the prompt there",
                 [&](bool v) { cache.set_store_completion(v); });
  options.Once("--salt,--cache-salt", "TEXT",
               "Share cached content only with requests of this salt", ReadWord,
               [&](const std::string& v) { cache.set_salt(v); });
  static const std::string words = EnumWords(*v1::Retention_descriptor());
  options.Once("--retention", words.c_str(),
               "How long to keep what this request leaves in the cache",
               ReadAs(v1::Retention_descriptor()), [&](int v) {
                 cache.set_retention(static_cast<v1::Retention>(v));
               });
  options.Once("--cache-priority", "N",
               "0 to 100, in place of --retention (10, 50, 90): when the "
               "cache needs room, lower goes first",
               ReadInt, [&](int32_t v) { cache.set_priority(v); });
  options.Once("--cache-ttl", "TIME",
               "Drop what this request leaves in the cache after so long, such "
               "as 1h, without use",
               ReadTime, [&](const Duration& v) { *cache.mutable_ttl() = v; });
  options.Once("--cache-version", "LABEL",
               "Version of the model, by its label or fingerprint; default: "
               "the active one",
               ReadWord, [&](const std::string& v) { cache.set_version(v); });
}

}  // namespace

GenerationOptions::GenerationOptions() {
  request_.mutable_output()->set_timings(true);
}

void GenerationOptions::AddCommon(CLI::App& command) {
  AddRequest(command, request_);
  AddDraw(command, *request_.mutable_sampling());
  AddLogits(command, *request_.mutable_sampling());
  AddStopping(command, *request_.mutable_stopping());
  AddOutput(command, *request_.mutable_output());
  AddCache(command, *request_.mutable_cache());
}

void GenerationOptions::AddToChat(CLI::App& command) { AddCommon(command); }

void GenerationOptions::AddTo(CLI::App& command) {
  AddCommon(command);
  AddSingleRequest(command, request_);
  FieldOptions(command, kSamplingGroup)
      .Once("--n", "N", "Sequences to generate for the prompt; default 1",
            ReadInt,
            [this](int32_t v) { request_.mutable_sampling()->set_n(v); });
  AddSingleOutput(command, *request_.mutable_output());
  FieldOptions(command, kOutputGroup)
      .Either("--stream",
              "Show output as it comes: the default, but for -o json, where "
              "each event is a line then; of several sequences each once it "
              "has ended",
              "--no-stream", "Show output once it is whole",
              [this](bool v) { stream_ = v; });
}

}  // namespace kvasir::cli
