#include "engine/model/model_keys.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

// Tensors of one layer, after "blk.N.".
constexpr const char* kLayerTensors[] = {
    "attn_norm.weight", "attn_q.weight",      "attn_k.weight",
    "attn_v.weight",    "attn_output.weight", "attn_q.bias",
    "attn_k.bias",      "attn_v.bias",        "ffn_norm.weight",
    "ffn_gate.weight",  "ffn_up.weight",      "ffn_down.weight"};
constexpr const char* kModelTensors[] = {"token_embd.weight",
                                         "output_norm.weight", "output.weight",
                                         "rope_freqs.weight"};

bool IsKnownTensor(const std::string& name, int32_t layer_count) {
  if (std::find(std::begin(kModelTensors), std::end(kModelTensors), name) !=
      std::end(kModelTensors)) {
    return true;
  }
  if (name.rfind("blk.", 0) != 0) return false;
  const size_t dot = name.find('.', 4);
  int32_t layer = -1;
  if (dot == std::string::npos ||
      !absl::SimpleAtoi(name.substr(4, dot - 4), &layer) || layer < 0 ||
      layer >= layer_count) {
    return false;
  }
  return std::find(std::begin(kLayerTensors), std::end(kLayerTensors),
                   name.substr(dot + 1)) != std::end(kLayerTensors);
}

}  // namespace

absl::Status ModelKeys::Invalid(const std::string& key,
                                const std::string& wanted,
                                const std::string& found) const {
  return absl::InvalidArgumentError(
      absl::StrCat(Name(key), ": wanted ", wanted, ", found ", found));
}

absl::StatusOr<int32_t> ModelKeys::Int(const std::string& key, int64_t least,
                                       int64_t most) const {
  if (!file_->Has(Name(key))) {
    return Invalid(key, absl::StrCat(least, " to ", most), "nothing");
  }
  ASSIGN_OR_RETURN(const int64_t value, file_->GetInt(Name(key)));
  if (value < least || value > most ||
      value > std::numeric_limits<int32_t>::max()) {
    return Invalid(key, absl::StrCat(least, " to ", most), absl::StrCat(value));
  }
  return static_cast<int32_t>(value);
}

absl::StatusOr<double> ModelKeys::Float(const std::string& key, double least,
                                        double most) const {
  if (!file_->Has(Name(key))) {
    return Invalid(key, absl::StrCat(least, " to ", most), "nothing");
  }
  ASSIGN_OR_RETURN(const double value, file_->GetFloat(Name(key)));
  if (!(value >= least && value <= most)) {
    return Invalid(key, absl::StrCat(least, " to ", most), absl::StrCat(value));
  }
  return value;
}

absl::StatusOr<int32_t> ModelKeys::IntOr(const std::string& key, int64_t least,
                                         int64_t most,
                                         int64_t otherwise) const {
  if (!file_->Has(Name(key))) return static_cast<int32_t>(otherwise);
  return Int(key, least, most);
}

absl::StatusOr<double> ModelKeys::FloatOr(const std::string& key, double least,
                                          double most, double otherwise) const {
  if (!file_->Has(Name(key))) return otherwise;
  return Float(key, least, most);
}

absl::StatusOr<std::string> ModelKeys::StringOr(
    const std::string& key, const std::string& otherwise) const {
  if (!file_->Has(Name(key))) return otherwise;
  return file_->GetString(Name(key));
}

absl::Status RefuseUnknownTensors(const GgufFile& file, int32_t layer_count) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (IsKnownTensor(tensor.name, layer_count)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "tensor ", absl::CHexEscape(tensor.name), " is no part of a model of ",
        layer_count, " layers as this architecture is supported"));
  }
  return absl::OkStatus();
}

}  // namespace kvasir
