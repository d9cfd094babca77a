#include "engine/model/weights.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

using Progress = absl::FunctionRef<bool(int64_t, int64_t)>;

// Loads one tensor after the other and keeps count of the bytes.
class Loader {
 public:
  Loader(const GgufFile& file, Backend& backend, Progress progress)
      : file_(file), backend_(backend), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) {
      // Belongs to the configuration, which has read it.
      if (tensor.name == "rope_freqs.weight") continue;
      unused_.insert(&tensor);
      total_ += tensor.bytes;
    }
  }

  absl::StatusOr<std::unique_ptr<Weight>> Matrix(const std::string& name,
                                                 int64_t rows,
                                                 int64_t columns) {
    ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {columns, rows}));
    absl::StatusOr<std::unique_ptr<Weight>> weight =
        backend_.LoadWeight(tensor->AsMatrix());
    if (!weight.ok()) return Annotate(weight.status(), name);
    RETURN_IF_ERROR(Report(*tensor));
    return weight;
  }

  absl::StatusOr<std::vector<float>> Vector(const std::string& name,
                                            int64_t size) {
    ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {size}));
    if (tensor->type != DType::kF32) {
      return absl::UnimplementedError(absl::StrCat(
          "tensor ", name, ": type ", std::string(DTypeName(tensor->type)),
          " found, vectors must be F32"));
    }
    std::vector<float> values(size);
    std::memcpy(values.data(), tensor->data, size * sizeof(float));
    RETURN_IF_ERROR(Report(*tensor));
    return values;
  }

  // A bias in one layer and not in the others, say: leaving it out silently
  // would give wrong answers.
  absl::Status CheckAllUsed() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!unused_.contains(&tensor)) continue;
      return absl::UnimplementedError(absl::StrCat(
          "tensor ", absl::CHexEscape(tensor.name),
          " has no place in a model whose first layer has no such tensor"));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Annotate(const absl::Status& status,
                               const std::string& name) {
    return absl::Status(status.code(),
                        absl::StrCat("tensor ", name, ": ", status.message()));
  }

  static std::string Shape(const std::vector<int64_t>& dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", dims[i]);
    }
    return text + "]";
  }

  absl::StatusOr<const GgufTensor*> Find(const std::string& name,
                                         std::vector<int64_t> dims) const {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", name, " of shape ", Shape(dims), " is missing"));
    }
    if (tensor->dims != dims) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, ": shape ", Shape(dims), " wanted, ",
                       Shape(tensor->dims), " found"));
    }
    return tensor;
  }

  absl::Status Report(const GgufTensor& tensor) {
    unused_.erase(&tensor);
    done_ += tensor.bytes;
    if (!progress_(done_, total_)) {
      return absl::CancelledError("loading the weights was abandoned");
    }
    return absl::OkStatus();
  }

  const GgufFile& file_;
  Backend& backend_;
  Progress progress_;
  absl::flat_hash_set<const GgufTensor*> unused_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

absl::Status LoadAttention(Loader& loader, const ModelConfig& config,
                           const std::string& prefix, LayerWeights& layer) {
  const int64_t hidden = config.hidden_dim;
  const int64_t query_dim = int64_t{config.head_count} * config.head_dim;
  const int64_t kv_dim = int64_t{config.kv_head_count} * config.head_dim;
  ASSIGN_OR_RETURN(layer.attention_norm,
                   loader.Vector(prefix + "attn_norm.weight", hidden));
  ASSIGN_OR_RETURN(layer.query,
                   loader.Matrix(prefix + "attn_q.weight", query_dim, hidden));
  ASSIGN_OR_RETURN(layer.key,
                   loader.Matrix(prefix + "attn_k.weight", kv_dim, hidden));
  ASSIGN_OR_RETURN(layer.value,
                   loader.Matrix(prefix + "attn_v.weight", kv_dim, hidden));
  ASSIGN_OR_RETURN(
      layer.attention_output,
      loader.Matrix(prefix + "attn_output.weight", hidden, query_dim));
  if (config.qkv_bias) {
    ASSIGN_OR_RETURN(layer.query_bias,
                     loader.Vector(prefix + "attn_q.bias", query_dim));
    ASSIGN_OR_RETURN(layer.key_bias,
                     loader.Vector(prefix + "attn_k.bias", kv_dim));
    ASSIGN_OR_RETURN(layer.value_bias,
                     loader.Vector(prefix + "attn_v.bias", kv_dim));
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerWeights> LoadLayer(Loader& loader,
                                       const ModelConfig& config,
                                       int32_t index) {
  const std::string prefix = absl::StrCat("blk.", index, ".");
  const int64_t hidden = config.hidden_dim;
  const int64_t inner = config.feed_forward_dim;
  LayerWeights layer;
  RETURN_IF_ERROR(LoadAttention(loader, config, prefix, layer));
  ASSIGN_OR_RETURN(layer.feed_forward_norm,
                   loader.Vector(prefix + "ffn_norm.weight", hidden));
  ASSIGN_OR_RETURN(layer.gate,
                   loader.Matrix(prefix + "ffn_gate.weight", inner, hidden));
  ASSIGN_OR_RETURN(layer.up,
                   loader.Matrix(prefix + "ffn_up.weight", inner, hidden));
  ASSIGN_OR_RETURN(layer.down,
                   loader.Matrix(prefix + "ffn_down.weight", hidden, inner));
  return layer;
}

int64_t VectorBytes(const std::vector<float>& values) {
  return static_cast<int64_t>(values.size() * sizeof(float));
}

}  // namespace

int64_t Weights::memory_bytes() const {
  int64_t bytes = embedding->memory_bytes() + VectorBytes(output_norm);
  if (separate_output) bytes += separate_output->memory_bytes();
  for (const LayerWeights& layer : layers) {
    for (const auto* matrix :
         {&layer.query, &layer.key, &layer.value, &layer.attention_output,
          &layer.gate, &layer.up, &layer.down}) {
      bytes += (*matrix)->memory_bytes();
    }
    for (const auto* vector :
         {&layer.attention_norm, &layer.query_bias, &layer.key_bias,
          &layer.value_bias, &layer.feed_forward_norm}) {
      bytes += VectorBytes(*vector);
    }
  }
  return bytes;
}

absl::StatusOr<Weights> LoadWeights(const GgufFile& file,
                                    const ModelConfig& config, Backend& backend,
                                    Progress progress) {
  Loader loader(file, backend, progress);
  Weights weights;
  ASSIGN_OR_RETURN(weights.embedding,
                   loader.Matrix("token_embd.weight", config.embedding_rows,
                                 config.hidden_dim));
  weights.layers.reserve(config.layer_count);
  for (int32_t i = 0; i < config.layer_count; ++i) {
    ASSIGN_OR_RETURN(LayerWeights layer, LoadLayer(loader, config, i));
    weights.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(weights.output_norm,
                   loader.Vector("output_norm.weight", config.hidden_dim));
  if (!config.tied_output) {
    ASSIGN_OR_RETURN(
        weights.separate_output,
        loader.Matrix("output.weight", config.vocab_size, config.hidden_dim));
  }
  RETURN_IF_ERROR(loader.CheckAllUsed());
  return weights;
}

}  // namespace kvasir
