#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "engine/model/utf8.h"
#include "server/config_option.h"

namespace kvasir {
namespace {

absl::Status SetSimd(ConfigTarget target, const std::string& text) {
  if (text != "auto" && text != "scalar") {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted auto or scalar, found ", QuoteText(text)));
  }
  target.config.engine.force_scalar = text == "scalar";
  return absl::OkStatus();
}

const ConfigOption kOptions[] = {
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
};

}  // namespace

absl::Span<const ConfigOption> EngineConfigOptions() { return kOptions; }

}  // namespace kvasir
