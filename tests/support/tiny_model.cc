#include "tests/support/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

constexpr int32_t kControlTokens = 3;
constexpr int32_t kMaxTokens = 512;
constexpr double kEmbeddingDeviation = 0.35;

// Words whose letters are merged one after the other, so that each is a token.
// The first ones are the pieces that the streaming tests script; a leading
// space is part of the word.
constexpr const char* kWords[] = {
    "The",   " old",   " har",   "bour",   " caf",   "alpha",     " beta",
    " gam",  "ma",     " ray",   "user",   "system", "assistant", " the",
    " and",  " of",    " to",    " in",    " is",    " that",     " it",
    " for",  " was",   " on",    " with",  " as",    " you",      "ing",
    "er",    "ed",     "ion",    " be",    " at",    " by",       " this",
    " have", " from",  " or",    " one",   " had",   " not",      " but",
    " what", " all",   " were",  " when",  " we",    " there",    " can",
    " an",   " your",  " which", " their", " said",  " if",       " will",
    " each", " about", " how",   " up",    " out",   " them",     " then",
    " she",  " many",  " some",  " so",    " these", " would",    " other",
    " into", " has",   " more",  " her",   " two",   " like",     " him",
    " see",  " time",  " could", " no",    " make"};

std::string Utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6),
          static_cast<char>(0x80 | (code_point & 0x3f))};
}

bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
         byte >= 0xae;
}

// GPT-2's alphabet: printable bytes stand for themselves, the others for the
// code points from 256 on.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> alphabet(256);
  uint32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[byte] = Utf8(IsPrintable(byte) ? byte : next++);
  }
  return alphabet;
}

class TensorFactory {
 public:
  TensorFactory(GgufWriter* writer, const TinyModelOptions& options)
      : writer_(writer), type_(options.matrix_type), random_(options.seed) {}

  // [rows, columns] with a deviation of `gain` / sqrt(columns), so that unit
  // inputs give outputs of size `gain`.
  std::vector<float> Matrix(const std::string& name, int64_t rows,
                            int64_t columns, double gain) {
    const auto deviation =
        static_cast<float>(gain / std::sqrt(static_cast<double>(columns)));
    std::vector<float> values = Normals(rows * columns, 0, deviation);
    AddMatrix(name, rows, columns, values);
    return values;
  }

  void AddMatrix(const std::string& name, int64_t rows, int64_t columns,
                 const std::vector<float>& values) {
    writer_->AddTensor(name, type_, {columns, rows}, values);
  }

  void Vector(const std::string& name, int64_t size, float mean,
              float deviation) {
    writer_->AddTensor(name, DType::kF32, {size},
                       Normals(size, mean, deviation));
  }

 private:
  std::vector<float> Normals(int64_t count, float mean, float deviation) {
    std::vector<float> values(count);
    for (float& value : values) value = mean + random_.Normal(deviation);
    return values;
  }

  GgufWriter* writer_;
  DType type_;
  TestRandom random_;
};

void AddLayer(const TinyModelOptions& options, int32_t layer,
              TensorFactory& factory) {
  const std::string prefix = absl::StrCat("blk.", layer, ".");
  const int64_t hidden = options.hidden_dim;
  const int64_t head_dim = hidden / options.head_count;
  const int64_t kv_dim = head_dim * options.kv_head_count;
  const int64_t wide =
      options.feed_forward_dim > 0 ? options.feed_forward_dim : 2 * hidden;
  factory.Vector(prefix + "attn_norm.weight", hidden, 1, 0.1f);
  factory.Matrix(prefix + "attn_q.weight", hidden, hidden, 2);
  factory.Matrix(prefix + "attn_k.weight", kv_dim, hidden, 2);
  factory.Matrix(prefix + "attn_v.weight", kv_dim, hidden, 1);
  if (options.architecture == "qwen2") {
    factory.Vector(prefix + "attn_q.bias", hidden, 0, 0.5f);
    factory.Vector(prefix + "attn_k.bias", kv_dim, 0, 0.5f);
    factory.Vector(prefix + "attn_v.bias", kv_dim, 0, 0.5f);
  }
  factory.Matrix(prefix + "attn_output.weight", hidden, hidden, 1.5);
  factory.Vector(prefix + "ffn_norm.weight", hidden, 1, 0.1f);
  factory.Matrix(prefix + "ffn_gate.weight", wide, hidden, 1.5);
  factory.Matrix(prefix + "ffn_up.weight", wide, hidden, 1.5);
  factory.Matrix(prefix + "ffn_down.weight", hidden, wide, 1.5);
}

void AddTokenizer(const TinyModelOptions& options,
                  const TinyVocabulary& vocabulary, GgufWriter& writer) {
  writer.SetString("tokenizer.ggml.model", "gpt2");
  writer.SetString("tokenizer.ggml.pre", "smollm");
  writer.SetStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.SetInts("tokenizer.ggml.token_type", vocabulary.kinds);
  writer.SetStrings("tokenizer.ggml.merges", vocabulary.merges);
  writer.SetInt("tokenizer.ggml.bos_token_id", 1);
  writer.SetInt("tokenizer.ggml.eos_token_id", 2);
  writer.SetInt("tokenizer.ggml.padding_token_id", 2);
  writer.SetBool("tokenizer.ggml.add_bos_token", options.add_bos);
  writer.SetString(
      "tokenizer.chat_template",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' "
      "+ message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
      "{% endif %}");
}

}  // namespace

TinyVocabulary MakeTinyVocabulary(int32_t token_count) {
  const int32_t wanted = token_count > 0 ? token_count : kMaxTokens;
  KV_CHECK(wanted >= kControlTokens + 256 && wanted <= kMaxTokens)
      << "tiny vocabulary of " << wanted << " tokens";
  const std::vector<std::string> alphabet = ByteAlphabet();
  TinyVocabulary out;
  out.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  out.kinds.assign(kControlTokens, 3);
  out.tokens.insert(out.tokens.end(), alphabet.begin(), alphabet.end());
  absl::flat_hash_set<std::string> known(out.tokens.begin(), out.tokens.end());
  for (const std::string_view word : kWords) {
    std::string left = alphabet[static_cast<uint8_t>(word[0])];
    for (const char letter : word.substr(1)) {
      const std::string& right = alphabet[static_cast<uint8_t>(letter)];
      std::string merged = left + right;
      if (known.insert(merged).second &&
          out.tokens.size() < static_cast<size_t>(wanted)) {
        out.tokens.push_back(merged);
        out.merges.push_back(absl::StrCat(left, " ", right));
      }
      left = std::move(merged);
    }
  }
  out.kinds.resize(out.tokens.size(), 1);
  return out;
}

GgufWriter MakeTinyModel(const TinyModelOptions& options) {
  const TinyVocabulary vocabulary = MakeTinyVocabulary(options.token_count);
  const auto tokens = static_cast<int32_t>(vocabulary.tokens.size());
  const std::string prefix = options.architecture + ".";
  GgufWriter writer;
  writer.SetString("general.architecture", options.architecture);
  writer.SetString("general.name", options.name);
  writer.SetInt(prefix + "block_count", options.layer_count);
  writer.SetInt(prefix + "context_length", options.max_context);
  writer.SetInt(prefix + "embedding_length", options.hidden_dim);
  writer.SetInt(prefix + "feed_forward_length", options.feed_forward_dim > 0
                                                    ? options.feed_forward_dim
                                                    : 2 * options.hidden_dim);
  writer.SetInt(prefix + "attention.head_count", options.head_count);
  writer.SetInt(prefix + "attention.head_count_kv", options.kv_head_count);
  writer.SetFloat(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.SetFloat(prefix + "rope.freq_base", 10000);
  AddTokenizer(options, vocabulary, writer);

  TensorFactory factory(&writer, options);
  const int32_t embedding_rows =
      options.embedding_rows > 0 ? options.embedding_rows : tokens;
  const std::vector<float> embedding =
      factory.Matrix("token_embd.weight", embedding_rows, options.hidden_dim,
                     kEmbeddingDeviation * std::sqrt(options.hidden_dim));
  for (int32_t layer = 0; layer < options.layer_count; ++layer) {
    AddLayer(options, layer, factory);
  }
  factory.Vector("output_norm.weight", options.hidden_dim, 1, 0.1f);
  if (options.head == TinyModelOptions::Head::kTiedWithCopy) {
    factory.AddMatrix("output.weight", embedding_rows, options.hidden_dim,
                      embedding);
  }
  if (options.head == TinyModelOptions::Head::kUntied) {
    factory.Matrix("output.weight",
                   options.output_rows > 0 ? options.output_rows : tokens,
                   options.hidden_dim,
                   kEmbeddingDeviation * std::sqrt(options.hidden_dim));
  }
  return writer;
}

std::string TinyModelBytes(const TinyModelOptions& options) {
  return MakeTinyModel(options).Build();
}

absl::Status WriteTinyModel(const TinyModelOptions& options,
                            const std::string& path) {
  return MakeTinyModel(options).Write(path);
}

uint64_t TestRandom::Next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

int64_t TestRandom::Below(int64_t bound) {
  return static_cast<int64_t>(Next() % static_cast<uint64_t>(bound));
}

float TestRandom::Normal(float deviation) {
  // The sum of four uniform numbers has variance 1/3; no library function whose
  // last bit depends on the machine.
  const uint64_t bits = Next();
  int64_t sum = 0;
  for (int part = 0; part < 4; ++part) sum += bits >> (16 * part) & 0xffff;
  const float centred = static_cast<float>(sum - 2 * 65535) / 65536.0f;
  return centred * 1.7320508f * deviation;
}

}  // namespace kvasir
