#include "engine/model_loader.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "cache/base/status_macros.h"
#include "cache/kv_cache.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/fingerprint.h"
#include "engine/model/chat_format.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/utf8.h"
#include "engine/model/weights.h"
#include "engine/step_plan.h"

namespace kvasir {
namespace {

// Bounds of EngineOptions: scratch memory and the work of a step grow with
// them.
constexpr int64_t kMaxTokenBudget = 1 << 16;
constexpr int64_t kMaxSequences = 1 << 12;
constexpr int64_t kMaxInboxLimit = 1 << 20;
constexpr int64_t kMaxThreadCount = 1 << 10;
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// What the attention kernels take for block_tokens is a multiple of this.
constexpr int32_t kBlockTokensStep = 8;

constexpr size_t kMaxNameBytes = 256;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t lowest,
                        int64_t highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": wanted ", lowest,
      highest == kUnbounded ? " or more" : absl::StrCat(" to ", highest),
      ", found ", value));
}

absl::Status CheckWord(absl::string_view name, absl::string_view value,
                       absl::string_view first, absl::string_view second) {
  if (value == first || value == second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": wanted \"", first, "\" or \"", second, "\", found ",
                   QuoteText({value.data(), value.size()})));
}

std::string NameFromPath(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path.remove_prefix(slash + 1);
  return std::string(absl::StripSuffix(path, ".gguf"));
}

// `digest` is the model file's.
std::string NameOf(const EngineOptions& options) {
  return options.model_name.empty() ? NameFromPath(options.model_path)
                                    : options.model_name;
}

// A name goes into messages, labels and logs, whose readers take neither other
// bytes than UTF-8 nor control characters.
absl::Status CheckName(const std::string& name) {
  const bool printable = absl::c_none_of(name, [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (printable && name.size() <= kMaxNameBytes &&
      WellFormedBytes(name) == name.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model_name: wanted at most ", kMaxNameBytes,
      " bytes of UTF-8 without control characters, found ", QuoteText(name)));
}

// Clients tell models apart by their names alone.
absl::Status CheckModels(const EngineOptions& options) {
  RETURN_IF_ERROR(CheckName(NameOf(options)));
  if (options.more_models.size() >= kMaxStartModels) {
    return absl::InvalidArgumentError(
        absl::StrCat("more_models: wanted at most ", kMaxStartModels,
                     " models, found ", 1 + options.more_models.size()));
  }
  std::set<std::string> names = {NameOf(options)};
  for (const ModelSource& source : options.more_models) {
    EngineOptions one;
    one.model_path = source.path;
    one.model_name = source.name;
    const std::string name = NameOf(one);
    RETURN_IF_ERROR(CheckName(name));
    if (source.path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("more_models: wanted the path of a GGUF file for ",
                       QuoteText(name), ", found none"));
    }
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("more_models: wanted each model's name once, found ",
                       QuoteText(name), " twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const EngineOptions& options) {
  return MakeCpuBackend({.thread_count = options.thread_count,
                         .activations = options.activations == "f32"
                                            ? ActivationType::kF32
                                            : ActivationType::kQ8,
                         .force_scalar = options.force_scalar});
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const GgufFile& file) {
  ASSIGN_OR_RETURN(TokenizerSpec spec, ReadTokenizerSpec(file));
  return Tokenizer::Create(std::move(spec));
}

// Of the ids below `limit`. Converters pad a vocabulary to the matrix's rows
// with places that no token has.
absl::StatusOr<TokenSet> UsableTokens(const Tokenizer& tokenizer,
                                      int32_t limit) {
  TokenSet tokens(limit);
  for (TokenId id = 0; id < limit; ++id) {
    if (tokenizer.IsUnused(id)) tokens.Remove(id);
  }
  if (!tokens.empty()) return tokens;
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer.ggml.tokens: wanted a token below ", limit, ", found none"));
}

ModelInfo Describe(const EngineOptions& options, std::string digest,
                   const LoadedModel& model) {
  const ModelConfig& config = model.transformer->config();
  const Tokenizer& tokenizer = *model.tokenizer;
  ModelInfo info;
  info.name = NameOf(options);
  info.architecture = config.architecture;
  info.quantization = config.quantization;
  info.digest = std::move(digest);
  info.tokenizer_digest = tokenizer.Digest();
  info.cache_fingerprint =
      CacheFingerprint({.weights_digest = info.digest,
                        .config = &config,
                        .layout = model.layout,
                        .backend_numerics = model.backend->numerics()});
  info.path = options.model_path;
  info.backend = model.backend->numerics();
  info.chat_template = tokenizer.chat_template();
  info.chat_refusal = std::string(CheckChat(tokenizer).message());
  info.max_context = config.max_context;
  info.vocab_size = config.vocab_size;
  info.layer_count = config.layer_count;
  info.kv_head_count = config.kv_head_count;
  info.head_dim = config.head_dim;
  info.kv_bytes_per_token = model.layout.TokenBytes();
  info.thread_count =
      options.thread_count > 0 ? options.thread_count : UsableThreadCount();
  info.kv_type = options.kv_type;
  info.end_tokens.assign(tokenizer.end_tokens().begin(),
                         tokenizer.end_tokens().end());
  return info;
}

}  // namespace

absl::Status CheckEngineOptions(const EngineOptions& options) {
  RETURN_IF_ERROR(CheckModels(options));
  RETURN_IF_ERROR(
      CheckRange("cache_bytes", options.cache_bytes, 0, kUnbounded));
  RETURN_IF_ERROR(
      CheckRange("cache_blocks", options.cache_blocks, 0, kUnbounded));
  RETURN_IF_ERROR(CheckRange("block_tokens", options.block_tokens,
                             kBlockTokensStep, KvCache::kMaxBlockTokens));
  if (options.block_tokens % kBlockTokensStep != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_tokens: wanted a multiple of ", kBlockTokensStep,
                     ", found ", options.block_tokens));
  }
  RETURN_IF_ERROR(CheckWord("kv_type", options.kv_type, "f16", "f32"));
  RETURN_IF_ERROR(
      CheckWord("eviction_policy", options.eviction_policy, "adaptive", "lru"));
  RETURN_IF_ERROR(CheckWord("activations", options.activations, "q8", "f32"));
  // One token of prompt and one of output.
  if (options.context_limit != 0) {
    RETURN_IF_ERROR(
        CheckRange("context_limit", options.context_limit, 2, kUnbounded));
  }
  RETURN_IF_ERROR(
      CheckRange("token_budget", options.token_budget, 1, kMaxTokenBudget));
  RETURN_IF_ERROR(
      CheckRange("prefill_chunk", options.prefill_chunk, 1, kMaxTokenBudget));
  RETURN_IF_ERROR(
      CheckRange("max_sequences", options.max_sequences, 1, kMaxSequences));
  RETURN_IF_ERROR(
      CheckRange("inbox_limit", options.inbox_limit, 1, kMaxInboxLimit));
  RETURN_IF_ERROR(
      CheckRange("canary_hits", options.canary_hits, 0, kUnbounded));
  return CheckRange("thread_count", options.thread_count, 0, kMaxThreadCount);
}

absl::StatusOr<LoadedModel> LoadModel(
    const EngineOptions& options,
    const std::function<absl::Status(const ModelOutline&)>& admit) {
  ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file,
                   GgufFile::Open(options.model_path));
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(*file));
  LoadedModel model;
  ASSIGN_OR_RETURN(model.tokenizer, LoadTokenizer(*file));
  model.layout =
      LayoutFor(config, options.block_tokens,
                options.kv_type == "f32" ? KvType::kF32 : KvType::kF16);
  if (admit) {
    RETURN_IF_ERROR(admit({.weight_bytes = WeightBytes(*file),
                           .layout = model.layout,
                           .tokenizer_digest = model.tokenizer->Digest()}));
  }
  ASSIGN_OR_RETURN(model.backend, MakeBackend(options));
  const auto progress = [&options](int64_t done, int64_t total) {
    return !options.load_progress || options.load_progress(done, total);
  };
  ASSIGN_OR_RETURN(Weights weights,
                   LoadWeights(*file, config, *model.backend, progress));
  const int64_t weight_bytes = weights.memory_bytes();
  std::string digest = std::move(weights.file_digest);
  const int32_t logit_rows = static_cast<int32_t>(std::min<int64_t>(
                                 options.max_sequences, options.token_budget)) +
                             kMaxScoredRows;
  ASSIGN_OR_RETURN(
      model.transformer,
      Transformer::Create(
          std::move(config), std::move(weights), model.backend.get(),
          static_cast<int32_t>(options.token_budget), logit_rows));
  const ModelConfig& loaded = model.transformer->config();
  model.token_limit = std::min(
      {loaded.embedding_rows, loaded.vocab_size, model.tokenizer->size()});
  ASSIGN_OR_RETURN(model.tokens,
                   UsableTokens(*model.tokenizer, model.token_limit));
  model.info = Describe(options, std::move(digest), model);
  model.info.weight_bytes = weight_bytes;
  return model;
}

}  // namespace kvasir
