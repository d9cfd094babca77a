#include "server/server_config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "CLI/CLI.hpp"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "engine/prefix_order.h"
#include "server/command_line.h"
#include "server/config_file.h"
#include "server/config_option.h"
#include "server/model_list.h"
#include "server/security_options.h"
#include "server/size_options.h"

namespace kvasir {
namespace {

constexpr const char* kConfigEnvironment = "KVASIR_CONFIG";

std::string EnvironmentName(const ConfigOption& option) {
  return absl::StrCat("KVASIR_", absl::AsciiStrToUpper(absl::StrReplaceAll(
                                     option.key, {{".", "_"}})));
}

// Nullptr if there is none.
const ConfigOption* FindOption(absl::string_view key) {
  for (const ConfigOption& option : AllConfigOptions()) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

// Where an option that exists, and so its value, stands among all.
size_t IndexOf(absl::string_view key) {
  return static_cast<size_t>(FindOption(key) - AllConfigOptions().data());
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
               "Show every setting with its origin, and exit")
      ->disable_flag_override();
  std::map<std::string, CLI::Option*> made;
  std::map<std::string, std::string> texts;
  for (const ConfigOption& option : AllConfigOptions()) {
    std::string help =
        absl::StrCat(option.help, " (env ", EnvironmentName(option));
    if (option.default_text[0] != '\0') {
      absl::StrAppend(&help, ", default ", option.default_text);
    }
    made[option.key] =
        app.add_option(option.flag, texts[option.key], help + ")")
            ->type_name(option.value_name);
    if (option.separator != '\0') made[option.key]->join(option.separator);
  }
  // CLI11 reports by exception.
  try {
    app.parse(ArgumentsForCli11(arguments));
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    line.text = absl::StrCat(version.what(), "\n");
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(FaultOfCli11(error.what()), " (see kvasird --help)"));
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
    const ConfigOption* const option = FindOption(key);
    if (option == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          settings.path, ":", value.line, ": unknown key ", QuoteText(key)));
    }
    if (!value.list) continue;
    if (option->separator == '\0') {
      return absl::InvalidArgumentError(
          absl::StrCat(settings.path, ":", value.line, ": ", QuoteText(key),
                       ": wanted one value, found a list"));
    }
    value.text = absl::StrJoin(value.items, std::string(1, option->separator));
  }
  return settings;
}

ConfigValue Resolve(const ConfigOption& option, const ConfigSources& sources,
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

absl::Status Refused(const ConfigOption& option, const ConfigValue& value,
                     const absl::Status& status, absl::string_view what) {
  return absl::Status(status.code(), absl::StrCat(option.flag, ": ", what, " (",
                                                  value.origin, ")"));
}

// What the engine refuses is told as the option's fault.
absl::Status CheckEngine(const ConfigOption& option, const ConfigValue& value,
                         const EngineOptions& engine) {
  const absl::Status status = CheckEngineOptions(engine);
  if (status.ok()) return status;
  const absl::string_view what = status.message();
  // Behind the field's name.
  return Refused(option, value, status, what.substr(what.find(": ") + 2));
}

// Takes the value over and checks it. What the engine would refuse it refuses
// here, before a port is taken or a model loaded.
absl::Status Apply(const ConfigOption& option, const ConfigValue& value,
                   ConfigTarget target) {
  // An empty default means that there is none.
  if (value.rank == ConfigRank::kDefault && value.value.empty()) {
    return absl::OkStatus();
  }
  const absl::Status set = option.set(target, value.value);
  if (!set.ok()) return Refused(option, value, set, set.message());
  // Two options name the models, see CheckModelNames().
  if (absl::string_view(kModelPathKey) == option.key) return set;
  // All others are checked or defaults, so an error is this one's.
  return CheckEngine(option, value, target.config.engine);
}

// The models, before the first one is called `name`. A list that only the name
// mends is no fault, and one that no name mends is the list's.
absl::Status CheckModels(const ParsedConfig& parsed, const ConfigValue& name) {
  EngineOptions named = parsed.config.engine;
  if (!name.value.empty()) named.model_name = name.value;
  if (CheckEngineOptions(named).ok()) return absl::OkStatus();
  const size_t i = IndexOf(kModelPathKey);
  return CheckEngine(AllConfigOptions()[i], parsed.values[i],
                     parsed.config.engine);
}

absl::Status CheckSecurity(const ParsedConfig& parsed) {
  const auto conflict = FindSecurityConflict(parsed.config);
  if (!conflict) return absl::OkStatus();
  const size_t i = IndexOf(conflict->key);
  return absl::InvalidArgumentError(absl::StrCat(
      AllConfigOptions()[i].flag, ": wanted ", conflict->wanted, ", found ",
      QuoteText(parsed.values[i].value), " (", parsed.values[i].origin, ")"));
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
  const size_t i = IndexOf(conflict->key);
  return absl::InvalidArgumentError(absl::StrCat(
      AllConfigOptions()[i].flag, ": wanted ", conflict->wanted, ", found ",
      QuoteText(parsed.values[i].value), " (", parsed.values[i].origin, ")"));
}

// A value as people may see it: a tenant's name is shown by its hash, by which
// they know it from the lists of prefixes.
std::string Shown(const ConfigValue& value) {
  const ConfigOption* const option = FindOption(value.key);
  if (option == nullptr || !option->names_tenants || value.value.empty()) {
    return absl::StrReplaceAll(value.value,
                               {{std::string(1, kModelSeparator), ","}});
  }
  std::vector<std::string> shown;
  for (const absl::string_view one :
       absl::StrSplit(value.value, option->separator)) {
    const size_t end = one.rfind('=');
    if (end == 0 || one.substr(0, end) == "*") {
      shown.emplace_back(one);
    } else if (end == absl::string_view::npos) {
      shown.push_back("[no value]");
    } else {
      shown.push_back(
          absl::StrCat("#", HashSalt({one.data(), end}), one.substr(end)));
    }
  }
  return absl::StrJoin(shown, std::string(1, option->separator));
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
  for (const ConfigOption& option : AllConfigOptions()) {
    ConfigValue value = Resolve(option, sources, line, file);
    if (absl::string_view(kModelNameKey) == option.key) {
      value = ModelNameOver(std::move(value), parsed.values.back(),
                            parsed.config.engine.model_name);
      RETURN_IF_ERROR(CheckModels(parsed, value));
    }
    RETURN_IF_ERROR(Apply(option, value, {parsed.config, sources}));
    parsed.values.push_back(std::move(value));
  }
  RETURN_IF_ERROR(CheckSecurity(parsed));
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
  std::vector<std::string> shown;
  for (const ConfigValue& value : values) {
    shown.push_back(Shown(value));
    key_width = std::max(key_width, value.key.size());
    value_width = std::max(value_width, shown.back().size());
  }
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& key = values[i].key;
    absl::StrAppend(&text, key, std::string(key_width - key.size() + 2, ' '),
                    shown[i],
                    std::string(value_width - shown[i].size() + 2, ' '),
                    values[i].origin, "\n");
  }
  return text;
}

}  // namespace kvasir
