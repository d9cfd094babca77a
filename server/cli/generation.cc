#include "server/cli/generation.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "engine/model/utf8.h"
#include "server/cli/format.h"
#include "server/cli/interrupt.h"

namespace kvasir::cli {

void GenerationOptions::AddTo(CLI::App& command) {
  command.add_option("--model", model, "Model to ask; default: the only one");
  command.add_option("--max-tokens", max_tokens,
                     "Most tokens to generate; default: until the context is "
                     "full");
  command.add_option("--temp", temperature,
                     "Temperature; 0 takes the likeliest token, default 1");
  command.add_option("--top-k", top_k, "Draw among so many likeliest tokens");
  command.add_option("--top-p", top_p, "Draw among this share of probability");
  command.add_option("--min-p", min_p,
                     "Draw among those this share as likely as the likeliest");
  command.add_option("--seed", seed, "Makes the draws repeatable");
  command.add_flag("--ignore-eos", ignore_eos, "Go on past the end token");
  command.add_flag("--no-cache", no_cache,
                   "Neither use nor fill the prefix cache");
  command.add_option("--salt", salt,
                     "Share cached content only with requests of this salt");
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

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file),
                   std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    Complain("cannot read " + path);
    return std::nullopt;
  }
  if (!CheckText(path, text)) return std::nullopt;
  return text;
}

std::optional<std::string> ReadStdin() {
  std::string text{std::istreambuf_iterator<char>(std::cin),
                   std::istreambuf_iterator<char>()};
  if (!CheckText("stdin", text)) return std::nullopt;
  return text;
}

bool CheckText(const std::string& what, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Start start = ReadUtf8(std::string_view(text).substr(at));
    if (start.kind != Utf8Start::Kind::kCharacter) {
      Complain(absl::StrCat(
          what, ": wanted UTF-8, found the byte 0x",
          absl::Hex(static_cast<unsigned char>(text[at]), absl::kZeroPad2),
          " at offset ", at));
      return false;
    }
    at += static_cast<size_t>(start.bytes);
  }
  return true;
}

}  // namespace kvasir::cli
