#include "engine/model/model_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/model_keys.h"
#include "engine/model/rope_scaling.h"

namespace kvasir {
namespace {

// Bounds far beyond any published model; what lies outside is a damaged file.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxDim = int64_t{1} << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxContext = int64_t{1} << 27;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
// Kernels load a head's dimensions eight at a time.
constexpr int64_t kHeadDimMultiple = 8;

// Keys whose effect on the numbers is not built, with the value that has none:
// a file that sets another would give wrong answers if it were let through.
struct UnsupportedKey {
  const char* name;
  double neutral;
};
constexpr UnsupportedKey kUnsupportedKeys[] = {
    {"embedding_scale", 1},
    {"residual_scale", 1},
    {"logit_scale", 1},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"attention.temperature_scale", 0},
    {"rope.scaling.alpha", 0},
    {"rope.scaling.yarn_log_multiplier", 0},
};

absl::Status ReadShape(const ModelKeys& keys, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.layer_count, keys.Int("block_count", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.hidden_dim, keys.Int("embedding_length", 1, kMaxDim));
  ASSIGN_OR_RETURN(config.feed_forward_dim,
                   keys.Int("feed_forward_length", 1, kMaxDim));
  ASSIGN_OR_RETURN(config.max_context,
                   keys.Int("context_length", 1, kMaxContext));
  ASSIGN_OR_RETURN(config.head_count,
                   keys.Int("attention.head_count", 1, kMaxHeads));
  ASSIGN_OR_RETURN(
      config.kv_head_count,
      keys.IntOr("attention.head_count_kv", 1, kMaxHeads, config.head_count));
  if (config.head_count % config.kv_head_count != 0) {
    return keys.Invalid("attention.head_count_kv",
                        absl::StrCat("a divisor of ", config.head_count),
                        absl::StrCat(config.kv_head_count));
  }
  ASSIGN_OR_RETURN(config.head_dim,
                   keys.IntOr("attention.key_length", 1, kMaxHeadDim,
                              config.hidden_dim / config.head_count));
  ASSIGN_OR_RETURN(
      const int32_t value_dim,
      keys.IntOr("attention.value_length", 1, kMaxHeadDim, config.head_dim));
  if (value_dim != config.head_dim) {
    return absl::UnimplementedError(absl::StrCat(
        keys.Name("attention.value_length"), ": ", value_dim, " found, only ",
        config.head_dim, " (the key length) is supported"));
  }
  if (config.head_dim == 0 || config.head_dim % kHeadDimMultiple != 0) {
    return absl::UnimplementedError(absl::StrCat(
        "head dimension: ", config.head_dim, " found, multiples of ",
        kHeadDimMultiple, " are supported"));
  }
  return absl::OkStatus();
}

absl::Status ReadAttention(const ModelKeys& keys, ModelConfig& config) {
  ASSIGN_OR_RETURN(const double epsilon,
                   keys.Float("attention.layer_norm_rms_epsilon", 0, 1));
  config.norm_epsilon = static_cast<float>(epsilon);
  const double usual_scale =
      1 / std::sqrt(static_cast<double>(config.head_dim));
  ASSIGN_OR_RETURN(const double scale,
                   keys.FloatOr("attention.scale", 0, 1e6, usual_scale));
  // Converters write 0 for unset.
  config.attention_scale = static_cast<float>(scale > 0 ? scale : usual_scale);
  // A window as wide as the context changes nothing; a narrower one would.
  ASSIGN_OR_RETURN(const int32_t window,
                   keys.IntOr("attention.sliding_window", 0, kMaxContext, 0));
  if (window > 0 && window < config.max_context) {
    return absl::UnimplementedError(
        absl::StrCat(keys.Name("attention.sliding_window"), ": ", window,
                     " found, windows below the context of ",
                     config.max_context, " are not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReadRopeDivisors(const GgufFile& file) {
  const GgufTensor* tensor = file.FindTensor("rope_freqs.weight");
  if (tensor == nullptr) return std::vector<float>();
  if (tensor->type != DType::kF32 || tensor->dims.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor rope_freqs.weight: wanted a vector of F32, found ",
                     tensor->dims.size(), " dimensions of ",
                     std::string(DTypeName(tensor->type))));
  }
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, file.ReadTensor(*tensor));
  std::vector<float> divisors(tensor->dims[0]);
  std::memcpy(divisors.data(), bytes.data(), bytes.size());
  return divisors;
}

absl::Status ReadRope(const GgufFile& file, const ModelKeys& keys,
                      ModelConfig& config) {
  constexpr double kLarge = 1e12;
  RopeScaling scaling;
  ASSIGN_OR_RETURN(
      const int32_t rotated,
      keys.IntOr("rope.dimension_count", 2, config.head_dim, config.head_dim));
  if (rotated % 2 != 0) {
    return keys.Invalid("rope.dimension_count", "an even number",
                        absl::StrCat(rotated));
  }
  ASSIGN_OR_RETURN(scaling.type,
                   keys.StringOr("rope.scaling.type", scaling.type));
  ASSIGN_OR_RETURN(scaling.base,
                   keys.FloatOr("rope.freq_base", 0, kLarge, scaling.base));
  // The key's name before YaRN, then its name today.
  ASSIGN_OR_RETURN(scaling.factor,
                   keys.FloatOr("rope.scale_linear", 0, kLarge, 1));
  ASSIGN_OR_RETURN(scaling.factor, keys.FloatOr("rope.scaling.factor", 0,
                                                kLarge, scaling.factor));
  if (scaling.factor == 0) scaling.factor = 1;  // converters write 0 for unset
  ASSIGN_OR_RETURN(scaling.original_context,
                   keys.IntOr("rope.scaling.original_context_length", 0,
                              kMaxContext, config.max_context));
  if (scaling.original_context == 0) {
    scaling.original_context = config.max_context;
  }
  ASSIGN_OR_RETURN(scaling.attention_factor,
                   keys.FloatOr("rope.scaling.attn_factor", 0, kLarge, 1));
  ASSIGN_OR_RETURN(scaling.extrapolation,
                   keys.FloatOr("rope.scaling.yarn_ext_factor", 0, 1, 1));
  ASSIGN_OR_RETURN(scaling.beta_fast,
                   keys.FloatOr("rope.scaling.yarn_beta_fast", 0, kLarge, 32));
  ASSIGN_OR_RETURN(scaling.beta_slow,
                   keys.FloatOr("rope.scaling.yarn_beta_slow", 0, kLarge, 1));
  ASSIGN_OR_RETURN(scaling.divisors, ReadRopeDivisors(file));
  const RopeSpec::Pairing pairing = config.architecture == "qwen2"
                                        ? RopeSpec::Pairing::kHalves
                                        : RopeSpec::Pairing::kAdjacent;
  ASSIGN_OR_RETURN(config.rope, ResolveRope(scaling, pairing, rotated));
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->dims.size() != 2) {
    return absl::InvalidArgumentError(
        embedding == nullptr
            ? std::string("tensor token_embd.weight is missing")
            : absl::StrCat("tensor token_embd.weight: wanted 2 dimensions, "
                           "found ",
                           embedding->dims.size()));
  }
  const GgufTensor* output = file.FindTensor("output.weight");
  config.tied_output = output == nullptr;
  const std::vector<int64_t>& dims = (output ? output : embedding)->dims;
  for (const int64_t rows : {embedding->dims[1], dims.back()}) {
    if (rows < 1 || rows > kMaxVocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          "vocabulary: wanted 1 to ", kMaxVocab, " rows, found ", rows));
    }
  }
  config.embedding_rows = static_cast<int32_t>(embedding->dims[1]);
  config.vocab_size = static_cast<int32_t>(dims.back());
  return absl::OkStatus();
}

// Most frequent type of a matrix, by bytes.
std::string Quantization(const GgufFile& file) {
  std::map<DType, int64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.dims.size() >= 2) bytes[tensor.type] += tensor.bytes;
  }
  const auto most =
      std::max_element(bytes.begin(), bytes.end(),
                       [](auto& a, auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "none" : std::string(DTypeName(most->first));
}

// One file of several holds a part of the tensors; an adapter or a projector
// holds others.
absl::Status RefusePartialModel(const GgufFile& file) {
  if (file.Has("split.count")) {
    ASSIGN_OR_RETURN(const int64_t parts, file.GetInt("split.count"));
    if (parts > 1) {
      return absl::UnimplementedError(absl::StrCat(
          "split.count: ", parts, " found, models in one file are supported"));
    }
  }
  if (file.Has("general.type")) {
    ASSIGN_OR_RETURN(const std::string type, file.GetString("general.type"));
    if (type != "model") {
      return absl::UnimplementedError(
          absl::StrCat("general.type: \"", absl::CHexEscape(type),
                       "\" found, \"model\" is supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseUnsupported(const GgufFile& file, const ModelKeys& keys) {
  RETURN_IF_ERROR(RefusePartialModel(file));
  for (const UnsupportedKey& key : kUnsupportedKeys) {
    ASSIGN_OR_RETURN(
        const double value,
        keys.FloatOr(key.name, std::numeric_limits<float>::lowest(),
                     std::numeric_limits<float>::max(), key.neutral));
    if (value == key.neutral) continue;
    return absl::UnimplementedError(absl::StrCat(keys.Name(key.name), ": ",
                                                 value, " found, only ",
                                                 key.neutral, " is supported"));
  }
  ASSIGN_OR_RETURN(const int32_t experts,
                   keys.IntOr("expert_count", 0, kMaxHeads, 0));
  if (experts > 0) {
    return absl::UnimplementedError(
        absl::StrCat(keys.Name("expert_count"), ": ", experts,
                     " found, mixtures of experts are not supported"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const GgufFile& file) {
  ModelConfig config;
  ASSIGN_OR_RETURN(config.architecture, file.GetString("general.architecture"));
  if (config.architecture != "llama" && config.architecture != "qwen2") {
    return absl::UnimplementedError(absl::StrCat(
        "general.architecture: \"", absl::CHexEscape(config.architecture),
        "\" found, llama and qwen2 are supported"));
  }
  const ModelKeys keys(&file, config.architecture);
  if (absl::StatusOr<std::string> name = file.GetString("general.name");
      name.ok()) {
    config.name = *name;
  }
  RETURN_IF_ERROR(RefuseUnsupported(file, keys));
  RETURN_IF_ERROR(ReadShape(keys, config));
  RETURN_IF_ERROR(ReadAttention(keys, config));
  RETURN_IF_ERROR(ReadRope(file, keys, config));
  RETURN_IF_ERROR(ReadVocabulary(file, config));
  config.qkv_bias = file.FindTensor("blk.0.attn_q.bias") != nullptr;
  config.quantization = Quantization(file);
  RETURN_IF_ERROR(RefuseUnknownTensors(file, config.layer_count));
  return config;
}

}  // namespace kvasir
