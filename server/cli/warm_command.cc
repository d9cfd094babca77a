#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "cache/retention.h"
#include "server/cli/commands.h"
#include "server/cli/format.h"
#include "server/cli/generation.h"
#include "server/cli/progress_call.h"
#include "server/cli/warm_report.h"
#include "server/config_values.h"
#include "server/text.h"
#include "server/warm_file.h"

namespace kvasir::cli {
namespace {

struct WarmOptions {
  std::string file;
  std::string format = "auto";
  std::string model;
  std::string version;
  std::string salt;
  std::optional<int32_t> priority;
  std::string ttl;
  bool pin = false;
  int32_t parallelism = 1;
};

// What `format` makes of the text; nothing, with a complaint, if it is none.
std::optional<v1::WarmCacheRequest> ReadPrompts(const WarmOptions& options) {
  const bool from_stdin = options.file == "-";
  const std::optional<std::string> text =
      from_stdin ? ReadStdin() : ReadFile(options.file);
  if (!text.has_value()) return std::nullopt;
  const bool named_yaml = absl::EndsWith(options.file, ".yaml") ||
                          absl::EndsWith(options.file, ".yml");
  v1::WarmCacheRequest request;
  if (options.format == "yaml" || (options.format == "auto" && named_yaml)) {
    absl::StatusOr<WarmFile> file =
        ParseWarmFile(from_stdin ? "stdin" : options.file, *text);
    if (!file.ok()) {
      Complain(std::string(file.status().message()));
      return std::nullopt;
    }
    return std::move(file->request);
  }
  if (options.format == "lines") {
    for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
      if (!line.empty()) request.add_prompts()->set_text(std::string(line));
    }
  } else if (!text->empty()) {
    request.add_prompts()->set_text(*text);
  }
  if (request.prompts_size() > 0) return request;
  Complain(absl::StrCat(options.file, ": wanted a prompt, found none"));
  return std::nullopt;
}

bool AddSettings(const WarmOptions& options, v1::WarmCacheRequest& request) {
  request.set_model(options.model);
  request.set_version(options.version);
  request.set_salt(options.salt);
  request.set_parallelism(options.parallelism);
  if (options.priority.has_value()) request.set_priority(*options.priority);
  if (options.pin) request.set_retention(v1::RETENTION_PINNED);
  if (options.ttl.empty()) return true;
  const absl::StatusOr<absl::Duration> ttl = ParseDuration(options.ttl);
  if (!ttl.ok()) {
    Complain("--ttl: " + std::string(ttl.status().message()));
    return false;
  }
  const int64_t nanos = absl::ToInt64Nanoseconds(*ttl);
  request.mutable_ttl()->set_seconds(nanos / 1000000000);
  request.mutable_ttl()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return true;
}

int Warm(const WarmOptions& options, const Globals& globals) {
  std::optional<v1::WarmCacheRequest> request = ReadPrompts(options);
  if (!request.has_value() || !AddSettings(options, *request)) {
    return kExitUsage;
  }
  Client client(globals);
  if (!client.Connect()) return kExitConnect;
  const auto [status, report] = Follow<v1::WarmCacheResponse>(
      client,
      [&](grpc::ClientContext* context) {
        return client.admin().WarmCache(context, *request);
      },
      [&](const v1::WarmCacheResponse& news) {
        if (news.prefixes_size() == 0) Note(globals, DescribeWarm(news));
      });
  // What is resident is worth knowing also where not all of it is.
  if (report.prefixes_size() > 0) {
    if (globals.json) {
      PrintJson(report, false);
    } else {
      WriteText(RenderWarmed(report, StdoutIsTerminal()));
    }
  }
  return status.ok() ? kExitOk : client.Report(status);
}

}  // namespace

void AddWarmCommand(CLI::App& cache, Action& action) {
  auto options = std::make_shared<WarmOptions>();
  CLI::App* warm = cache.add_subcommand(
      "warm", "Compute prompts before anybody asks; Ctrl-C calls it off");
  warm->add_option("file", options->file,
                   "Prompts: a YAML list, or a text; - is stdin")
      ->required();
  warm->add_option("--format", options->format,
                   "yaml (see README), text (the whole file is one prompt), "
                   "lines (each line is one); auto: yaml if FILE is called so, "
                   "else text")
      ->check(CLI::IsMember({"auto", "yaml", "text", "lines"}))
      ->capture_default_str();
  warm->add_option("--model", options->model,
                   "Model to warm; default: the first one");
  warm->add_option("--cache-version", options->version,
                   "Label or fingerprint; default: the active version");
  warm->add_option("--salt", options->salt, "Whose prefixes they are");
  warm->add_option("--priority", options->priority,
                   "0 to 100; more is kept longer")
      ->check(CLI::Range(kMinRetentionPriority, kMaxRetentionPriority));
  warm->add_option("--ttl", options->ttl, "How long after their last use")
      ->type_name("TIME");
  warm->add_flag("--pin", options->pin, "Keep them until they are unpinned");
  warm->add_option("--parallelism", options->parallelism,
                   "Prompts computed at a time, at most 64")
      ->capture_default_str();
  warm->callback([options, &action] {
    action = [options](const Globals& globals) {
      return Warm(*options, globals);
    };
  });
}

}  // namespace kvasir::cli
