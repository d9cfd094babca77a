#include "tests/support/naive_decoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/backend/cpu/quant_formats.h"

namespace kvasir {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

// out = matrix * in (+ bias).
Row Product(const Rows& matrix, const Row& in, const Row& bias = {}) {
  Row out(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) {
    out[i] = bias.empty() ? 0 : bias[i];
    for (size_t j = 0; j < in.size(); ++j) out[i] += matrix[i][j] * in[j];
  }
  return out;
}

Rows Products(const Rows& matrix, const Rows& in, const Row& bias = {}) {
  Rows out;
  for (const Row& row : in) out.push_back(Product(matrix, row, bias));
  return out;
}

void AddTo(Rows& sum, const Rows& terms) {
  for (size_t i = 0; i < sum.size(); ++i) {
    for (size_t j = 0; j < sum[i].size(); ++j) sum[i][j] += terms[i][j];
  }
}

// Turns scores into weights that add up to 1.
void Softmax(Row& scores) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - highest);
  for (double& score : scores) score /= total;
}

}  // namespace

NaiveDecoder::NaiveDecoder(const GgufFile* file)
    : file_(file),
      architecture_(file->GetString("general.architecture").value()),
      layers_(Int("block_count")),
      heads_(Int("attention.head_count")),
      kv_heads_(Int("attention.head_count_kv")),
      head_dim_(file->Has(architecture_ + ".attention.key_length")
                    ? Int("attention.key_length")
                    : Int("embedding_length") / heads_),
      epsilon_(
          file->GetFloat(architecture_ + ".attention.layer_norm_rms_epsilon")
              .value()) {
  const int64_t rotated = file->Has(architecture_ + ".rope.dimension_count")
                              ? Int("rope.dimension_count")
                              : head_dim_;
  const double base = file->GetFloat(architecture_ + ".rope.freq_base").value();
  for (int64_t pair = 0; pair < rotated / 2; ++pair) {
    inverse_frequencies.push_back(
        1 / std::pow(base, 2.0 * static_cast<double>(pair) /
                               static_cast<double>(rotated)));
  }
}

int64_t NaiveDecoder::Int(const std::string& key) const {
  return file_->GetInt(architecture_ + "." + key).value();
}

Rows NaiveDecoder::Matrix(const std::string& name) const {
  const GgufTensor* tensor = file_->FindTensor(name);
  KV_CHECK(tensor != nullptr) << name;
  const std::vector<uint8_t> bytes = file_->ReadTensor(*tensor).value();
  const HostMatrix matrix = tensor->AsMatrix(bytes.data());
  Rows rows;
  std::vector<float> row(matrix.columns);
  for (int64_t i = 0; i < matrix.rows; ++i) {
    DequantizeRow(matrix, i, absl::MakeSpan(row));
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

Row NaiveDecoder::Vector(const std::string& name) const {
  return file_->FindTensor(name) == nullptr ? Row() : Matrix(name)[0];
}

Row NaiveDecoder::Norm(const Row& in, const Row& gain) const {
  double squares = 0;
  for (const double value : in) squares += value * value;
  const double factor =
      1 / std::sqrt(squares / static_cast<double>(in.size()) + epsilon_);
  Row out(in.size());
  for (size_t i = 0; i < in.size(); ++i) out[i] = in[i] * factor * gain[i];
  return out;
}

// Llama's files pair neighbours, Qwen's the two halves.
void NaiveDecoder::Rotate(int64_t position, double* head) const {
  const size_t pairs = inverse_frequencies.size();
  for (size_t pair = 0; pair < pairs; ++pair) {
    const bool halves = architecture_ == "qwen2";
    double& x = head[halves ? pair : 2 * pair];
    double& y = head[halves ? pair + pairs : 2 * pair + 1];
    const double angle =
        static_cast<double>(position) * inverse_frequencies[pair];
    const double cosine = std::cos(angle) * magnitude;
    const double sine = std::sin(angle) * magnitude;
    const double turned = x * cosine - y * sine;
    y = x * sine + y * cosine;
    x = turned;
  }
}

Rows NaiveDecoder::Attention(const std::string& prefix,
                             const Rows& normed) const {
  const auto project = [&](const std::string& name) {
    return Products(Matrix(prefix + name + ".weight"), normed,
                    Vector(prefix + name + ".bias"));
  };
  Rows query = project("attn_q"), key = project("attn_k");
  const Rows value = project("attn_v");
  Rows context(normed.size(), Row(heads_ * head_dim_));
  for (size_t t = 0; t < normed.size(); ++t) {
    for (int64_t head = 0; head < kv_heads_; ++head) {
      Rotate(static_cast<int64_t>(t), key[t].data() + head * head_dim_);
    }
    for (int64_t head = 0; head < heads_; ++head) {
      double* own = query[t].data() + head * head_dim_;
      Rotate(static_cast<int64_t>(t), own);
      const int64_t kv = head / (heads_ / kv_heads_) * head_dim_;
      Row weights(t + 1);
      for (size_t s = 0; s <= t; ++s) {
        for (int64_t d = 0; d < head_dim_; ++d) {
          weights[s] += own[d] * key[s][kv + d];
        }
        weights[s] /= std::sqrt(static_cast<double>(head_dim_));
      }
      Softmax(weights);
      for (size_t s = 0; s <= t; ++s) {
        for (int64_t d = 0; d < head_dim_; ++d) {
          context[t][head * head_dim_ + d] += weights[s] * value[s][kv + d];
        }
      }
    }
  }
  return Products(Matrix(prefix + "attn_output.weight"), context);
}

Rows NaiveDecoder::FeedForward(const std::string& prefix,
                               const Rows& normed) const {
  Rows gate = Products(Matrix(prefix + "ffn_gate.weight"), normed);
  const Rows up = Products(Matrix(prefix + "ffn_up.weight"), normed);
  for (size_t t = 0; t < gate.size(); ++t) {
    for (size_t i = 0; i < gate[t].size(); ++i) {
      gate[t][i] *= up[t][i] / (1 + std::exp(-gate[t][i]));
    }
  }
  return Products(Matrix(prefix + "ffn_down.weight"), gate);
}

std::vector<std::vector<double>> NaiveDecoder::AllLogits(
    absl::Span<const TokenId> tokens) const {
  const Rows embedding = Matrix("token_embd.weight");
  Rows hidden;
  for (const TokenId token : tokens) hidden.push_back(embedding.at(token));
  const auto normed = [&](const std::string& name) {
    const Row gain = Vector(name);
    Rows out;
    for (const Row& row : hidden) out.push_back(Norm(row, gain));
    return out;
  };
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const std::string prefix = absl::StrCat("blk.", layer, ".");
    AddTo(hidden, Attention(prefix, normed(prefix + "attn_norm.weight")));
    AddTo(hidden, FeedForward(prefix, normed(prefix + "ffn_norm.weight")));
  }
  const bool tied = file_->FindTensor("output.weight") == nullptr;
  return Products(tied ? embedding : Matrix("output.weight"),
                  normed("output_norm.weight"));
}

}  // namespace kvasir
