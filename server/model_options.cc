#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/engine.h"
#include "server/config_option.h"
#include "server/model_list.h"
#include "server/version_codec.h"

namespace kvasir {
namespace {

absl::Status SetModels(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<ModelSource> models, ParseModels(text));
  EngineOptions& engine = target.config.engine;
  engine.model_path = models.front().path;
  engine.model_name = models.front().name;
  engine.more_models.assign(models.begin() + 1, models.end());
  return absl::OkStatus();
}

absl::Status SetModelName(ConfigTarget target, const std::string& text) {
  if (!text.empty()) target.config.engine.model_name = text;
  return absl::OkStatus();
}

absl::Status SetVersionLabel(ConfigTarget target, const std::string& text) {
  target.config.engine.version_label = text;
  return CheckVersionLabel(text);
}

const ConfigOption kOptions[] = {
    {"model.path", "--model", "PATH", "",
     "GGUF file to serve; NAME=PATH gives it the name that clients use. The "
     "flag again, or a list in the file, for more models beside the first",
     SetModels, kModelSeparator},
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
};

}  // namespace

absl::Span<const ConfigOption> ModelConfigOptions() { return kOptions; }

}  // namespace kvasir
