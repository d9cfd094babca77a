#include "server/server_config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "CLI/CLI.hpp"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/config_file.h"
#include "server/config_values.h"
#include "server/model_list.h"
#include "server/size_options.h"
#include "server/tenant_quota.h"
#include "server/text.h"
#include "server/version_codec.h"

namespace kvasir {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
// What one gRPC message may need in memory at the most.
constexpr int64_t kMaxMessageBytesLimit = int64_t{1} << 30;

// How an option's text becomes part of the configuration.
struct Target {
  ServerConfig& config;
  const ConfigSources& sources;
};
using Setter = absl::Status (*)(Target, const std::string&);

struct Option {
  const char* key;
  const char* flag;
  const char* value_name;
  const char* default_text;
  const char* help;
  Setter set;
};

template <auto Member>
absl::Status SetEngineText(Target target, const std::string& text) {
  target.config.engine.*Member = text;
  return absl::OkStatus();
}

// A whole number from `kLowest` on; the engine knows the upper bounds.
template <auto Member, int64_t kLowest>
absl::Status SetEngineCount(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t value, ParseCount(text, kLowest, kMaxInt32));
  auto& member = target.config.engine.*Member;
  member = static_cast<std::remove_reference_t<decltype(member)>>(value);
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetTime(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.*Member, ParseDuration(text));
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetAddress(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.*Member, ParseHostPort(text));
  return absl::OkStatus();
}

absl::Status SetModels(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<ModelSource> models, ParseModels(text));
  EngineOptions& engine = target.config.engine;
  engine.model_path = models.front().path;
  engine.model_name = models.front().name;
  engine.more_models.assign(models.begin() + 1, models.end());
  return absl::OkStatus();
}

absl::Status SetModelName(Target target, const std::string& text) {
  if (!text.empty()) target.config.engine.model_name = text;
  return absl::OkStatus();
}

absl::Status SetVersionLabel(Target target, const std::string& text) {
  target.config.engine.version_label = text;
  return CheckVersionLabel(text);
}

absl::Status SetCacheSize(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(const SizeChoice choice, ParseCacheSize(text));
  target.config.engine.cache_bytes = choice.bytes;
  target.config.sizing.share = choice.share;
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetSizeBound(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.sizing.*Member, ParseSizeBound(text));
  return absl::OkStatus();
}

absl::Status SetAutoResize(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.sizing.auto_resize, ParseBool(text));
  return absl::OkStatus();
}

absl::Status SetPrefixCaching(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.prefix_caching, ParseBool(text));
  return absl::OkStatus();
}

absl::Status SetWarmFile(Target target, const std::string& text) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(target.config.warm, ReadWarmFile(text));
  return absl::OkStatus();
}

absl::Status SetTenantQuotas(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.tenant_quotas, ParseTenantQuotas(text));
  return absl::OkStatus();
}

absl::Status SetSimd(Target target, const std::string& text) {
  if (text != "auto" && text != "scalar") {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted auto or scalar, found ", QuoteText(text)));
  }
  target.config.engine.force_scalar = text == "scalar";
  return absl::OkStatus();
}

absl::Status SetMaxMessage(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(
      target.config.max_message_bytes, ParseSize(text, [&target] {
        return target.sources.memory_limit(target.config.sizing.system_root);
      }));
  if (target.config.max_message_bytes >= 1024 &&
      target.config.max_message_bytes <= kMaxMessageBytesLimit) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted 1KiB to 1GiB, found ", QuoteText(text)));
}

absl::Status SetStreamQueue(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(const int64_t value, ParseCount(text, 1, 1 << 20));
  target.config.stream_queue_limit = static_cast<int32_t>(value);
  return absl::OkStatus();
}

absl::Status SetLogFormat(Target target, const std::string& text) {
  if (text != "text" && text != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted text or json, found ", QuoteText(text)));
  }
  target.config.log_format =
      text == "json" ? LogFormat::kJson : LogFormat::kText;
  return absl::OkStatus();
}

absl::Status SetLogLevel(Target target, const std::string& text) {
  const std::pair<const char*, LogLevel> kLevels[] = {
      {"debug", LogLevel::kDebug},
      {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning},
      {"error", LogLevel::kError}};
  for (const auto& [name, level] : kLevels) {
    if (text != name) continue;
    target.config.log_level = level;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted debug, info, warning or error, found ", QuoteText(text)));
}

#if KVASIR_TEST_HOOKS
absl::Status SetLoadDelay(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.load_delay,
                   ParseDuration(text));
  return absl::OkStatus();
}

absl::Status SetStepDelay(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.step_delay,
                   ParseDuration(text));
  return absl::OkStatus();
}

absl::Status SetScript(Target target, const std::string& text) {
  for (const absl::string_view id : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const int64_t value,
                     ParseCount({id.data(), id.size()}, 0, kMaxInt32));
    target.config.engine.test_hooks.script.push_back(
        static_cast<TokenId>(value));
  }
  return absl::OkStatus();
}

absl::Status SetSystemRoot(Target target, const std::string& text) {
  target.config.sizing.system_root = text;
  return absl::OkStatus();
}

absl::Status SetFailingStep(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.first_failing_step,
                   ParseCount(text, 0, kMaxInt32));
  return absl::OkStatus();
}

absl::Status SetFailingSteps(Target target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.failing_steps,
                   ParseCount(text, 1, kMaxInt32));
  return absl::OkStatus();
}
#endif

// Every option of kvasird. Order is that of --help.
const Option kOptions[] = {
    {"model.path", "--model", "PATH", "",
     "GGUF file to serve; NAME=PATH gives it the name that clients use. The "
     "flag again, or a list in the file, for more models beside the first",
     SetModels},
    {"model.name", "--model-name", "NAME", "",
     "Name that clients use for the first model; empty: from the file's name",
     SetModelName},
    {"model.version_label", "--version-label", "LABEL", "",
     "What the first model's version served from the start is called; empty: "
     "the model's name, @ and the first digits of its fingerprint",
     SetVersionLabel},
    {"model.context_limit", "--context-limit", "TOKENS", "0",
     "Tokens that prompt and output may hold; 0: what the model was trained "
     "for",
     SetEngineCount<&EngineOptions::context_limit, 0>},
    {"server.listen", "--listen", "HOST:PORT", "127.0.0.1:8001",
     "Where gRPC listens; port 0 picks one", SetAddress<&ServerConfig::listen>},
    {"metrics.listen", "--metrics-listen", "HOST:PORT", "127.0.0.1:8002",
     "Where /metrics, /livez, /readyz and /healthz listen",
     SetAddress<&ServerConfig::metrics_listen>},
    {"server.drain_timeout", "--drain-timeout", "TIME", "30s",
     "How long running streams may go on after SIGTERM",
     SetTime<&ServerConfig::drain_timeout>},
    {"server.stall_timeout", "--stall-timeout", "TIME", "4s",
     "Not ready if work waits and the engine finishes no step for so long, or "
     "for four average steps if those are longer",
     SetTime<&ServerConfig::stall_timeout>},
    {"server.max_message", "--max-message", "SIZE", "64MiB",
     "Largest request message; larger ones are RESOURCE_EXHAUSTED",
     SetMaxMessage},
    {"server.stream_queue", "--stream-queue", "EVENTS", "1024",
     "Events that may wait for one client that reads too slowly; then its "
     "call ends with RESOURCE_EXHAUSTED",
     SetStreamQueue},
    {"cache.size", "--cache-size", "SIZE", "auto",
     "KV cache: 512MiB, 8GiB, 60% of what the tightest memory limit leaves "
     "beside weights, other users and a reserve, or auto: 90% of it under a "
     "control group's limit, 50% under the host's",
     SetCacheSize},
    {"cache.blocks", "--cache-blocks", "BLOCKS", "0",
     "KV cache in blocks instead of bytes, if not 0",
     SetEngineCount<&EngineOptions::cache_blocks, 0>},
    {"cache.auto_resize", "--cache-auto-resize", "BOOL", "true",
     "Whether it shrinks when memory runs out or tasks wait for it, and grows "
     "again when there is room",
     SetAutoResize},
    {"cache.floor", "--cache-floor", "SIZE", "auto",
     "It does not shrink below this by itself; auto: an eighth of the size at "
     "start, or more for one request of the full context",
     SetSizeBound<&CacheSizing::floor_bytes>},
    {"cache.ceiling", "--cache-ceiling", "SIZE", "auto",
     "Nor grow beyond this; auto: the size given, or what the limit leaves; an "
     "operator's resize sets a new one",
     SetSizeBound<&CacheSizing::ceiling_bytes>},
    {"cache.block_tokens", "--block-tokens", "TOKENS", "16",
     "Token places per KV block",
     SetEngineCount<&EngineOptions::block_tokens, 1>},
    {"cache.kv_type", "--kv-type", "TYPE", "f16", "Keys and values: f16 or f32",
     SetEngineText<&EngineOptions::kv_type>},
    {"cache.prefix_caching", "--prefix-caching", "BOOL", "true",
     "Whether requests share the blocks of equal prefixes", SetPrefixCaching},
    {"cache.warm_file", "--warm-file", "FILE", "",
     "YAML file of prefixes that are computed at start, before the server is "
     "ready",
     SetWarmFile},
    {"cache.warm_deadline", "--warm-deadline", "TIME", "5m",
     "How long --warm-file may keep the server from being ready; it goes on "
     "after that",
     SetTime<&ServerConfig::warm_deadline>},
    {"cache.eviction_policy", "--eviction-policy", "NAME", "adaptive",
     "Which cached blocks go first where nothing else tells them apart: "
     "adaptive (learns what comes back) or lru",
     SetEngineText<&EngineOptions::eviction_policy>},
    {"cache.canary_hits", "--canary-hits", "COUNT", "1000",
     "One of so many requests that find something in the cache has it computed "
     "anew and compared when the engine is idle; 0: none",
     SetEngineCount<&EngineOptions::canary_hits, 0>},
    {"cache.tenant_quotas", "--tenant-quota", "SALT=FLOOR[:MAX]", "",
     "What of the cache requests with this salt may count on, and keep at most "
     "while they do not run: blocks, 512MiB, or 10% of it as it is at any "
     "time; several with commas, or the flag again, or a list in the file",
     SetTenantQuotas},
    {"engine.threads", "--threads", "COUNT", "0",
     "Threads that compute; 0: what the process may use",
     SetEngineCount<&EngineOptions::thread_count, 0>},
    {"engine.token_budget", "--token-budget", "TOKENS", "256",
     "Prompt and output tokens computed per step",
     SetEngineCount<&EngineOptions::token_budget, 1>},
    {"engine.prefill_chunk", "--prefill-chunk", "TOKENS", "256",
     "Most prompt tokens of one request per step",
     SetEngineCount<&EngineOptions::prefill_chunk, 1>},
    {"engine.max_sequences", "--max-sequences", "COUNT", "64",
     "Requests that run at a time",
     SetEngineCount<&EngineOptions::max_sequences, 1>},
    {"engine.inbox_limit", "--inbox-limit", "COUNT", "1024",
     "Requests that may wait; more are RESOURCE_EXHAUSTED",
     SetEngineCount<&EngineOptions::inbox_limit, 1>},
    {"engine.activations", "--activations", "TYPE", "q8",
     "Activations in products with quantized weights: q8 or f32",
     SetEngineText<&EngineOptions::activations>},
    {"engine.simd", "--simd", "KIND", "auto",
     "Vector instructions: auto or scalar", SetSimd},
    {"log.format", "--log-format", "FORMAT", "text", "text or json",
     SetLogFormat},
    {"log.level", "--log-level", "LEVEL", "info",
     "debug, info, warning or error", SetLogLevel},
#if KVASIR_TEST_HOOKS
    {"test.load_delay", "--test-load-delay", "TIME", "0",
     "Test hook: loading takes this much longer", SetLoadDelay},
    {"test.step_delay", "--test-step-delay", "TIME", "0",
     "Test hook: each step takes this much longer", SetStepDelay},
    {"test.script", "--test-script", "IDS", "",
     "Test hook: token ids, with commas, that are generated", SetScript},
    {"test.failing_step", "--test-failing-step", "NUMBER", "0",
     "Test hook: the step, from 1, that fails; 0: none", SetFailingStep},
    {"test.failing_steps", "--test-failing-steps", "COUNT", "1",
     "Test hook: how many fail from there on", SetFailingSteps},
    {"test.system_root", "--test-system-root", "FOLDER", "",
     "Test hook: where /proc and /sys are, for memory limits", SetSystemRoot},
#endif
};

// What stands between the values of an option that may have several, which are
// then one text; none if it has one.
std::optional<char> ListSeparator(const Option& option) {
  if (option.set == SetTenantQuotas) return kTenantSeparator;
  if (option.set == SetModels) return kModelSeparator;
  return std::nullopt;
}

constexpr const char* kConfigEnvironment = "KVASIR_CONFIG";

std::string EnvironmentName(const Option& option) {
  return absl::StrCat("KVASIR_", absl::AsciiStrToUpper(absl::StrReplaceAll(
                                     option.key, {{".", "_"}})));
}

// What the command line says: flags by key, and what else it asks for.
struct CommandLine {
  std::map<std::string, std::string> flags;
  std::string file;
  bool print_config = false;
  std::string text;  // of --help or --version
};

absl::StatusOr<CommandLine> ReadCommandLine(
    const std::vector<std::string>& arguments) {
  CLI::App app("kvasird serves a language model over gRPC.", "kvasird");
  app.set_version_flag("--version", "kvasird " KVASIR_VERSION);
  app.get_formatter()->column_width(34);
  CommandLine line;
  app.add_option("--config", line.file,
                 "YAML file with these settings (env KVASIR_CONFIG)")
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config,
               "Show every setting with its origin, and exit");
  std::map<std::string, CLI::Option*> made;
  std::map<std::string, std::string> texts;
  for (const Option& option : kOptions) {
    std::string help =
        absl::StrCat(option.help, " (env ", EnvironmentName(option));
    if (option.default_text[0] != '\0') {
      absl::StrAppend(&help, ", default ", option.default_text);
    }
    made[option.key] =
        app.add_option(option.flag, texts[option.key], help + ")")
            ->type_name(option.value_name);
    if (const auto separator = ListSeparator(option)) {
      made[option.key]->join(*separator);
    }
  }
  // CLI11 takes its arguments from the back and reports by exception.
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    line.text = absl::StrCat(version.what(), "\n");
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), " (see kvasird --help)"));
  }
  for (const auto& [key, option] : made) {
    if (option->count() > 0) line.flags[key] = texts[key];
  }
  return line;
}

struct FileSettings {
  std::string path;
  std::map<std::string, FileValue> values;
};

absl::StatusOr<FileSettings> ReadFileSettings(const ConfigSources& sources,
                                              const CommandLine& line) {
  FileSettings settings;
  settings.path = line.file;
  if (settings.path.empty()) {
    settings.path = sources.environment(kConfigEnvironment).value_or("");
  }
  if (settings.path.empty()) {
    if (sources.default_file.empty() ||
        access(sources.default_file.c_str(), F_OK) != 0) {
      return settings;
    }
    settings.path = sources.default_file;
  }
  ASSIGN_OR_RETURN(settings.values, ReadConfigFile(settings.path));
  for (auto& [key, value] : settings.values) {
    const Option* const option = std::find_if(
        std::begin(kOptions), std::end(kOptions),
        [&key = key](const Option& one) { return one.key == key; });
    if (option == std::end(kOptions)) {
      return absl::InvalidArgumentError(absl::StrCat(
          settings.path, ":", value.line, ": unknown key ", QuoteText(key)));
    }
    if (!value.list) continue;
    const std::optional<char> separator = ListSeparator(*option);
    if (!separator.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(settings.path, ":", value.line, ": ", QuoteText(key),
                       ": wanted one value, found a list"));
    }
    value.text = absl::StrJoin(value.items, std::string(1, *separator));
  }
  return settings;
}

ConfigValue Resolve(const Option& option, const ConfigSources& sources,
                    const CommandLine& line, const FileSettings& file) {
  if (const auto flag = line.flags.find(option.key); flag != line.flags.end()) {
    return {option.key, flag->second, absl::StrCat("flag ", option.flag),
            ConfigRank::kFlag};
  }
  const std::string name = EnvironmentName(option);
  if (const std::optional<std::string> text = sources.environment(name)) {
    return {option.key, *text, absl::StrCat("environment ", name),
            ConfigRank::kEnvironment};
  }
  if (const auto value = file.values.find(option.key);
      value != file.values.end()) {
    return {option.key, value->second.text,
            absl::StrCat("file ", file.path, ":", value->second.line),
            ConfigRank::kFile};
  }
  return {option.key, option.default_text, "default", ConfigRank::kDefault};
}

// A name in NAME=PATH counts as much as the path's own source, so one from a
// lower source gives way to it.
ConfigValue ModelNameOver(ConfigValue name, const ConfigValue& path,
                          const std::string& named) {
  if (named.empty() || name.rank >= path.rank) return name;
  return {name.key, named, path.origin, path.rank};
}

absl::Status Refused(const Option& option, const ConfigValue& value,
                     const absl::Status& status, absl::string_view what) {
  return absl::Status(status.code(), absl::StrCat(option.flag, ": ", what, " (",
                                                  value.origin, ")"));
}

// What the engine refuses is told as the option's fault.
absl::Status CheckEngine(const Option& option, const ConfigValue& value,
                         const EngineOptions& engine) {
  const absl::Status status = CheckEngineOptions(engine);
  if (status.ok()) return status;
  const absl::string_view what = status.message();
  // Behind the field's name.
  return Refused(option, value, status, what.substr(what.find(": ") + 2));
}

// Takes the value over and checks it. What the engine would refuse it refuses
// here, before a port is taken or a model loaded.
absl::Status Apply(const Option& option, const ConfigValue& value,
                   Target target) {
  // An empty default means that there is none.
  if (value.rank == ConfigRank::kDefault && value.value.empty()) {
    return absl::OkStatus();
  }
  const absl::Status set = option.set(target, value.value);
  if (!set.ok()) return Refused(option, value, set, set.message());
  // Two options name the models, see CheckModelNames().
  if (option.set == SetModels) return set;
  // All others are checked or defaults, so an error is this one's.
  return CheckEngine(option, value, target.config.engine);
}

// The models, before the first one is called `name`. A list that only the name
// mends is no fault, and one that no name mends is the list's.
absl::Status CheckModels(const ParsedConfig& parsed, const ConfigValue& name) {
  EngineOptions named = parsed.config.engine;
  if (!name.value.empty()) named.model_name = name.value;
  if (CheckEngineOptions(named).ok()) return absl::OkStatus();
  size_t i = 0;  // values are in the order of options
  while (kOptions[i].set != SetModels) ++i;
  return CheckEngine(kOptions[i], parsed.values[i], parsed.config.engine);
}

absl::Status CheckSizes(const ParsedConfig& parsed,
                        const ConfigSources& sources) {
  const CacheSizing& sizing = parsed.config.sizing;
  const absl::StatusOr<int64_t> limit =
      sources.memory_limit(sizing.system_root);
  const std::optional<SizeConflict> conflict = FindSizeConflict(
      parsed.config.engine.cache_bytes, sizing,
      limit.ok() ? std::optional<int64_t>(*limit) : std::nullopt);
  if (!conflict) return absl::OkStatus();
  size_t i = 0;  // values are in the order of options
  while (conflict->key != kOptions[i].key) ++i;
  return absl::InvalidArgumentError(absl::StrCat(
      kOptions[i].flag, ": wanted ", conflict->wanted, ", found ",
      QuoteText(parsed.values[i].value), " (", parsed.values[i].origin, ")"));
}

}  // namespace

absl::StatusOr<ParsedConfig> ParseConfig(const ConfigSources& sources) {
  ASSIGN_OR_RETURN(const CommandLine line, ReadCommandLine(sources.arguments));
  ParsedConfig parsed;
  if (!line.text.empty()) {
    parsed.action = ParsedConfig::Action::kPrintText;
    parsed.text = line.text;
    return parsed;
  }
  if (line.print_config) parsed.action = ParsedConfig::Action::kPrintConfig;
  ASSIGN_OR_RETURN(const FileSettings file, ReadFileSettings(sources, line));
  for (const Option& option : kOptions) {
    ConfigValue value = Resolve(option, sources, line, file);
    if (option.set == SetModelName) {
      value = ModelNameOver(std::move(value), parsed.values.back(),
                            parsed.config.engine.model_name);
      RETURN_IF_ERROR(CheckModels(parsed, value));
    }
    RETURN_IF_ERROR(Apply(option, value, {parsed.config, sources}));
    parsed.values.push_back(std::move(value));
  }
  RETURN_IF_ERROR(CheckSizes(parsed, sources));
  if (parsed.config.engine.model_path.empty() &&
      parsed.action == ParsedConfig::Action::kServe) {
    return absl::InvalidArgumentError(
        "--model: wanted the path of a GGUF file, found none");
  }
  return parsed;
}

std::string FormatConfig(const std::vector<ConfigValue>& values) {
  size_t key_width = 0;
  size_t value_width = 0;
  for (const ConfigValue& value : values) {
    key_width = std::max(key_width, value.key.size());
    value_width = std::max(value_width, value.value.size());
  }
  std::string text;
  for (const ConfigValue& value : values) {
    absl::StrAppend(&text, value.key,
                    std::string(key_width - value.key.size() + 2, ' '),
                    absl::StrReplaceAll(
                        value.value, {{std::string(1, kModelSeparator), ","}}),
                    std::string(value_width - value.value.size() + 2, ' '),
                    value.origin, "\n");
  }
  return text;
}

}  // namespace kvasir
