#include "engine/model/weights.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/backend/finite_check.h"

namespace kvasir {
namespace {

using Progress = absl::FunctionRef<bool(int64_t, int64_t)>;

absl::Status InTensor(const std::string& name, const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("tensor ", absl::CHexEscape(name), ": ", status.message()));
}

std::string Shape(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", dims[i]);
  }
  return text + "]";
}

// Knows first where every tensor belongs, then fills the places in the order of
// the file. The places stay where they are meanwhile.
class Loader {
 public:
  explicit Loader(const GgufFile& file) : file_(file) {}

  absl::Status Matrix(const std::string& name, int64_t rows, int64_t columns,
                      std::unique_ptr<Weight>& place) {
    ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {columns, rows}));
    places_[tensor] = {.matrix = &place};
    return absl::OkStatus();
  }

  absl::Status Vector(const std::string& name, int64_t size,
                      std::vector<float>& place) {
    ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {size}));
    if (tensor->type != DType::kF32) {
      return absl::UnimplementedError(absl::StrCat(
          "tensor ", name, ": type ", std::string(DTypeName(tensor->type)),
          " found, vectors must be F32"));
    }
    places_[tensor] = {.vector = &place};
    return absl::OkStatus();
  }

  // A bias in one layer and not in the others, say: leaving it out silently
  // would give wrong answers.
  absl::Status CheckAllUsed() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (places_.contains(&tensor) || IsOfConfig(tensor)) continue;
      return absl::UnimplementedError(absl::StrCat(
          "tensor ", absl::CHexEscape(tensor.name),
          " has no place in a model whose first layer has no such tensor"));
    }
    return absl::OkStatus();
  }

  // Fills every place and returns the file's digest.
  absl::StatusOr<std::string> Load(Backend& backend, Progress progress) const {
    int64_t done = 0;
    int64_t total = 0;
    for (const auto& [tensor, place] : places_) total += tensor->bytes;
    return file_.ReadThrough(
        [&](const GgufTensor& tensor, const uint8_t* data) -> absl::Status {
          const auto place = places_.find(&tensor);
          if (place == places_.end()) return absl::OkStatus();
          if (absl::Status filled = Fill(tensor, data, backend, place->second);
              !filled.ok()) {
            return InTensor(tensor.name, filled);
          }
          done += tensor.bytes;
          if (progress(done, total)) return absl::OkStatus();
          return absl::CancelledError("loading the weights was abandoned");
        });
  }

 private:
  struct Place {  // one of the two
    std::unique_ptr<Weight>* matrix = nullptr;
    std::vector<float>* vector = nullptr;
  };

  // Whether the configuration has read it.
  static bool IsOfConfig(const GgufTensor& tensor) {
    return tensor.name == "rope_freqs.weight";
  }

  static absl::Status Fill(const GgufTensor& tensor, const uint8_t* data,
                           Backend& backend, const Place& place) {
    RETURN_IF_ERROR(CheckFinite(tensor.AsMatrix(data)));
    if (place.matrix != nullptr) {
      ASSIGN_OR_RETURN(*place.matrix,
                       backend.LoadWeight(tensor.AsMatrix(data)));
      return absl::OkStatus();
    }
    place.vector->resize(tensor.dims[0]);
    std::memcpy(place.vector->data(), data, tensor.bytes);
    return absl::OkStatus();
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

  const GgufFile& file_;
  absl::flat_hash_map<const GgufTensor*, Place> places_;
};

absl::Status PlaceAttention(Loader& loader, const ModelConfig& config,
                            const std::string& prefix, LayerWeights& layer) {
  const int64_t hidden = config.hidden_dim;
  const int64_t query_dim = int64_t{config.head_count} * config.head_dim;
  const int64_t kv_dim = int64_t{config.kv_head_count} * config.head_dim;
  RETURN_IF_ERROR(
      loader.Vector(prefix + "attn_norm.weight", hidden, layer.attention_norm));
  RETURN_IF_ERROR(
      loader.Matrix(prefix + "attn_q.weight", query_dim, hidden, layer.query));
  RETURN_IF_ERROR(
      loader.Matrix(prefix + "attn_k.weight", kv_dim, hidden, layer.key));
  RETURN_IF_ERROR(
      loader.Matrix(prefix + "attn_v.weight", kv_dim, hidden, layer.value));
  RETURN_IF_ERROR(loader.Matrix(prefix + "attn_output.weight", hidden,
                                query_dim, layer.attention_output));
  if (!config.qkv_bias) return absl::OkStatus();
  RETURN_IF_ERROR(
      loader.Vector(prefix + "attn_q.bias", query_dim, layer.query_bias));
  RETURN_IF_ERROR(
      loader.Vector(prefix + "attn_k.bias", kv_dim, layer.key_bias));
  return loader.Vector(prefix + "attn_v.bias", kv_dim, layer.value_bias);
}

absl::Status PlaceLayer(Loader& loader, const ModelConfig& config,
                        int32_t index, LayerWeights& layer) {
  const std::string prefix = absl::StrCat("blk.", index, ".");
  const int64_t hidden = config.hidden_dim;
  const int64_t inner = config.feed_forward_dim;
  RETURN_IF_ERROR(PlaceAttention(loader, config, prefix, layer));
  RETURN_IF_ERROR(loader.Vector(prefix + "ffn_norm.weight", hidden,
                                layer.feed_forward_norm));
  RETURN_IF_ERROR(
      loader.Matrix(prefix + "ffn_gate.weight", inner, hidden, layer.gate));
  RETURN_IF_ERROR(
      loader.Matrix(prefix + "ffn_up.weight", inner, hidden, layer.up));
  return loader.Matrix(prefix + "ffn_down.weight", hidden, inner, layer.down);
}

absl::Status PlaceAll(Loader& loader, const ModelConfig& config,
                      Weights& weights) {
  RETURN_IF_ERROR(loader.Matrix("token_embd.weight", config.embedding_rows,
                                config.hidden_dim, weights.embedding));
  weights.layers.resize(config.layer_count);
  for (int32_t i = 0; i < config.layer_count; ++i) {
    RETURN_IF_ERROR(PlaceLayer(loader, config, i, weights.layers[i]));
  }
  RETURN_IF_ERROR(loader.Vector("output_norm.weight", config.hidden_dim,
                                weights.output_norm));
  if (!config.tied_output) {
    RETURN_IF_ERROR(loader.Matrix("output.weight", config.vocab_size,
                                  config.hidden_dim, weights.separate_output));
  }
  return loader.CheckAllUsed();
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

int64_t WeightBytes(const GgufFile& file) {
  int64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) bytes += tensor.bytes;
  return bytes;
}

absl::StatusOr<Weights> LoadWeights(const GgufFile& file,
                                    const ModelConfig& config, Backend& backend,
                                    Progress progress) {
  Loader loader(file);
  Weights weights;
  RETURN_IF_ERROR(PlaceAll(loader, config, weights));
  ASSIGN_OR_RETURN(weights.file_digest, loader.Load(backend, progress));
  return weights;
}

}  // namespace kvasir
