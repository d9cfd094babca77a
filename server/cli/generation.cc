#include "server/cli/generation.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "engine/model/utf8.h"
#include "server/cli/interrupt.h"
#include "server/cli/option_values.h"
#include "server/config_values.h"

namespace kvasir::cli {

std::string CheckTtl(const std::string& text) {
  const absl::StatusOr<absl::Duration> time = ParseDuration(text);
  if (time.ok() && *time > absl::ZeroDuration()) return "";
  return "wanted a time above 0 with a unit, such as 90s or 10m, found " +
         QuoteText(text);
}

google::protobuf::Duration ReadTtl(const std::string& text) {
  return ReadTime(text).value_or(google::protobuf::Duration());
}

const v1::Finished& Generation::first() const {
  static const auto* const none = new v1::Finished;
  return sequences.empty() ? *none : sequences.begin()->second;
}

void Take(const v1::GenerateResponse& event, Generation& generation) {
  generation.request_id = event.request_id();
  v1::Finished part;
  if (event.has_delta()) {
    const v1::TokenDelta& delta = event.delta();
    part.set_index(delta.index());
    part.set_text(delta.text());
    *part.mutable_token_ids() = delta.token_ids();
    *part.mutable_logprobs() = delta.logprobs();
    *part.mutable_prompt_logprobs() = delta.prompt_logprobs();
  } else if (event.has_finished()) {
    part = event.finished();
  } else {
    return;
  }
  v1::Finished& whole = generation.sequences[part.index()];
  // Merging joins lists, but not texts.
  std::string text = std::move(*whole.mutable_text());
  text += part.text();
  whole.MergeFrom(part);
  whole.set_text(std::move(text));
}

Generation Generate(Client& client, const v1::GenerateRequest& request,
                    const std::function<void(const v1::GenerateResponse&,
                                             const Generation&)>& on_event) {
  grpc::ClientContext context;
  client.SetDeadline(context, std::nullopt);
  const OnInterrupt cancel([&context] { context.TryCancel(); });
  const std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader =
      client.inference().Generate(&context, request);
  Generation generation;
  v1::GenerateResponse event;
  while (reader->Read(&event)) {
    Take(event, generation);
    on_event(event, generation);
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
