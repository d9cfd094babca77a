#include "server/cli/generation.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "engine/model/utf8.h"
#include "server/cli/format.h"
#include "server/cli/interrupt.h"
#include "server/config_values.h"

namespace kvasir::cli {

void GenerationOptions::AddTo(CLI::App& command) {
  command.add_option("--model", model, "Model to ask; default: the first one");
  command.add_option("--max-tokens", max_tokens,
                     "Most tokens to generate; default: until the context is "
                     "full");
  command.add_option("--temp", temperature,
                     "Temperature; 0 takes the likeliest token, default 1");
  command.add_option("--top-k", top_k, "Draw among so many likeliest tokens");
  command.add_option("--top-p", top_p, "Draw among this share of probability");
  command.add_option("--min-p", min_p,
                     "Draw among those this share as likely as the likeliest");
  // CLI11 would wrap a negative number round.
  command.add_option("--seed", seed, "Makes the draws repeatable")
      ->check([](const std::string& text) -> std::string {
        uint64_t value = 0;
        const bool digits = absl::c_all_of(
            text, [](unsigned char c) { return absl::ascii_isdigit(c); });
        return digits && absl::SimpleAtoi(text, &value)
                   ? ""
                   : "wanted a number from 0 to 2^64 - 1, found " + text;
      });
  command.add_flag("--ignore-eos", ignore_eos, "Go on past the end token");
  command.add_flag("--no-cache", no_cache,
                   "Neither use nor fill the prefix cache");
  command.add_option("--salt", salt,
                     "Share cached content only with requests of this salt");
  command.add_option("--cache-priority", cache_priority,
                     "0 to 100, default 50: when the cache needs room, what "
                     "this request leaves in it goes after all of lower "
                     "priority");
  command
      .add_option("--cache-ttl", cache_ttl,
                  "Drop what this request leaves in the cache after so long "
                  "without use")
      ->type_name("TIME")
      ->check(CheckTtl);
  command.add_option("--cache-version", cache_version,
                     "Version of the model, by its label or fingerprint; "
                     "default: the active one");
}

std::string CheckTtl(const std::string& text) {
  const absl::StatusOr<absl::Duration> time = ParseDuration(text);
  if (time.ok() && *time > absl::ZeroDuration()) return "";
  return "wanted a time above 0 with a unit, such as 90s or 10m, found " +
         QuoteText(text);
}

google::protobuf::Duration ReadTtl(const std::string& text) {
  absl::Duration rest = ParseDuration(text).value_or(absl::ZeroDuration());
  google::protobuf::Duration ttl;
  ttl.set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  ttl.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return ttl;
}

void GenerationOptions::Fill(v1::GenerateRequest& request) const {
  request.set_model(model);
  v1::SamplingParams& sampling = *request.mutable_sampling();
  if (temperature.has_value()) sampling.set_temperature(*temperature);
  if (top_k.has_value()) sampling.set_top_k(*top_k);
  if (top_p.has_value()) sampling.set_top_p(*top_p);
  if (min_p.has_value()) sampling.set_min_p(*min_p);
  if (seed.has_value()) sampling.set_seed(*seed);
  v1::StoppingParams& stopping = *request.mutable_stopping();
  if (max_tokens.has_value()) stopping.set_max_tokens(*max_tokens);
  stopping.set_ignore_eos(ignore_eos);
  request.mutable_output()->set_timings(true);
  if (no_cache) request.mutable_cache()->set_mode(v1::CACHE_MODE_BYPASS);
  request.mutable_cache()->set_salt(salt);
  request.mutable_cache()->set_version(cache_version);
  if (cache_priority.has_value()) {
    request.mutable_cache()->set_priority(*cache_priority);
  }
  if (!cache_ttl.empty()) {
    *request.mutable_cache()->mutable_ttl() = ReadTtl(cache_ttl);
  }
}

Generation StreamGeneration(
    Client& client, v1::GenerateRequest request,
    const std::function<void(const std::string&)>& on_text) {
  request.set_stream(true);
  grpc::ClientContext context;
  client.SetDeadline(context, std::nullopt);
  const OnInterrupt cancel([&context] { context.TryCancel(); });
  const std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader =
      client.inference().Generate(&context, request);
  Generation generation;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_delta()) {
      generation.text += response.delta().text();
      on_text(response.delta().text());
    } else if (response.has_finished()) {
      generation.finished = response.finished();
    }
  }
  generation.status = reader->Finish();
  return generation;
}

void WriteText(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool CloseStdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  Complain("could not write all output to stdout");
  return false;
}

std::string ReasonName(v1::FinishReason reason) {
  std::string name = v1::FinishReason_Name(reason);
  absl::string_view view = name;
  absl::ConsumePrefix(&view, "FINISH_REASON_");
  return absl::AsciiStrToLower(view);
}

std::string DescribeGeneration(const v1::Finished& finished) {
  const v1::Usage& usage = finished.usage();
  const v1::Timings& timings = finished.timings();
  std::string line = absl::StrCat(
      Plural(usage.prompt_tokens(), "prompt token"), " (",
      FormatCount(usage.cached_tokens()), " cached), first token after ",
      FormatSpan(FromProto(timings.first_token())), "; ",
      Plural(usage.completion_tokens(), "token"));
  if (timings.decode_tokens_per_second() > 0) {
    absl::StrAppend(&line, " at ",
                    FormatRate(timings.decode_tokens_per_second()),
                    " tokens/s");
  }
  absl::StrAppend(&line, "; ended by ", ReasonName(finished.reason()));
  if (finished.preemption_count() > 0) {
    absl::StrAppend(&line, "; ",
                    Plural(finished.preemption_count(), "preemption"));
  }
  return line;
}

namespace {

// All of an input, up to what a call can carry.
std::optional<std::string> ReadAll(const std::string& name, std::FILE* file) {
  std::string text;
  char part[1 << 16];
  // At its end a terminal would be read on, were it asked again.
  while (text.size() <= kMaxInputBytes && std::feof(file) == 0 &&
         std::ferror(file) == 0) {
    text.append(part, std::fread(part, 1, sizeof(part), file));
  }
  if (std::ferror(file) != 0) {
    Complain(absl::StrCat("cannot read ", name, ": ", std::strerror(errno)));
    return std::nullopt;
  }
  if (text.size() > kMaxInputBytes) {
    Complain(absl::StrCat(name, ": wanted at most ", kMaxInputBytes,
                          " bytes, found more"));
    return std::nullopt;
  }
  if (!CheckText(name, text)) return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::string> ReadFile(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    Complain(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    return std::nullopt;
  }
  std::optional<std::string> text = ReadAll(path, file);
  std::fclose(file);
  return text;
}

std::optional<std::string> ReadStdin() { return ReadAll("stdin", stdin); }

bool CheckText(const std::string& what, const std::string& text) {
  const size_t good = WellFormedBytes(text);
  if (good < text.size()) {
    Complain(absl::StrCat(
        what, ": wanted UTF-8, found the byte 0x",
        absl::Hex(static_cast<unsigned char>(text[good]), absl::kZeroPad2),
        " at offset ", good));
    return false;
  }
  return true;
}

}  // namespace kvasir::cli
