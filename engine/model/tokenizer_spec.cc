#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/status_macros.h"
#include "engine/model/gguf_file.h"
#include "engine/model/pre_tokenizer.h"
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

using Kind = TokenizerSpec::Kind;

// Control tokens that end a turn by their text, in any vocabulary.
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>",      "<|eot_id|>", "<|endoftext|>",
    "<|end_of_text|>", "<|eom_id|>", "</s>",
};

// The file's value, or nothing if it has no such key.
template <typename T>
absl::StatusOr<std::optional<T>> Optional(absl::StatusOr<T> value) {
  if (absl::IsNotFound(value.status())) return std::optional<T>();
  if (!value.ok()) return std::move(value).status();
  return std::optional<T>(*std::move(value));
}

// A key that no tokenizer can do without.
template <typename T>
absl::StatusOr<T> Needed(absl::StatusOr<T> value, absl::string_view key) {
  if (!absl::IsNotFound(value.status())) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": wanted a value; found none"));
}

// What converters write for an id that the model does not have: -1, of the 32
// bits of an id.
constexpr int64_t kNoId = 0xFFFFFFFF;

// -1 if the file names no such token.
absl::StatusOr<TokenId> ReadId(const GgufFile& file, const std::string& name,
                               size_t vocabulary_size) {
  const std::string key = absl::StrCat("tokenizer.ggml.", name);
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, Optional(file.GetInt(key)));
  if (!id.has_value() || *id == kNoId || *id == -1) return TokenId{-1};
  if (*id < 0 || static_cast<uint64_t>(*id) >= vocabulary_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": wanted an id below ", vocabulary_size, "; found ", *id));
  }
  return static_cast<TokenId>(*id);
}

// GGUF numbers the kinds from 1 in the order of the enum.
absl::StatusOr<std::vector<Kind>> ReadKinds(const GgufFile& file,
                                            size_t vocabulary_size) {
  const std::string key = "tokenizer.ggml.token_type";
  ASSIGN_OR_RETURN(const auto numbers, Optional(file.GetInts(key)));
  if (!numbers.has_value()) {
    return std::vector<Kind>(vocabulary_size, Kind::kNormal);
  }
  std::vector<Kind> kinds;
  kinds.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < 1 || number > static_cast<int64_t>(Kind::kByte) + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, "[", kinds.size(), "]: wanted 1 to 6; found ", number));
    }
    kinds.push_back(static_cast<Kind>(number - 1));
  }
  return kinds;
}

absl::StatusOr<std::vector<std::string>> ReadStrings(const GgufFile& file,
                                                     const std::string& key) {
  ASSIGN_OR_RETURN(const absl::Span<const std::string> strings,
                   Needed(file.GetStrings(key), key));
  return std::vector<std::string>(strings.begin(), strings.end());
}

absl::StatusOr<std::vector<TokenId>> ReadEndTokens(const GgufFile& file,
                                                   const TokenizerSpec& spec) {
  std::vector<TokenId> ids;
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    ASSIGN_OR_RETURN(const TokenId id, ReadId(file, name, spec.tokens.size()));
    if (id >= 0) ids.push_back(id);
  }
  const size_t typed = std::min(spec.tokens.size(), spec.kinds.size());
  for (size_t id = 0; id < typed; ++id) {
    if (spec.kinds[id] == Kind::kControl &&
        absl::c_linear_search(kEndTexts, spec.tokens[id])) {
      ids.push_back(static_cast<TokenId>(id));
    }
  }
  absl::c_sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Files spell the separator both ways.
constexpr std::pair<const char*, const char*> kNamedTokens[] = {
    {"unknown_token_id", "unk_token"},   {"seperator_token_id", "sep_token"},
    {"separator_token_id", "sep_token"}, {"padding_token_id", "pad_token"},
    {"cls_token_id", "cls_token"},       {"mask_token_id", "mask_token"},
};

absl::StatusOr<std::vector<std::pair<std::string, TokenId>>> ReadNamedTokens(
    const GgufFile& file, size_t vocabulary_size) {
  std::vector<std::pair<std::string, TokenId>> named;
  for (const auto& [key, name] : kNamedTokens) {
    ASSIGN_OR_RETURN(const TokenId id, ReadId(file, key, vocabulary_size));
    if (id >= 0) named.emplace_back(name, id);
  }
  return named;
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file) {
  TokenizerSpec spec;
  const std::string model_key = "tokenizer.ggml.model";
  ASSIGN_OR_RETURN(spec.model, Needed(file.GetString(model_key), model_key));
  if (spec.model != "gpt2") {
    return absl::UnimplementedError(
        absl::StrCat(model_key, ": wanted \"gpt2\" (byte-level BPE); found ",
                     QuoteText(spec.model)));
  }
  const std::string pre_key = "tokenizer.ggml.pre";
  ASSIGN_OR_RETURN(spec.pre_tokenizer,
                   Needed(file.GetString(pre_key), pre_key));
  ASSIGN_OR_RETURN(const PreTokenizerRules* rules,
                   FindPreTokenizerRules(spec.pre_tokenizer));
  ASSIGN_OR_RETURN(spec.tokens, ReadStrings(file, "tokenizer.ggml.tokens"));
  ASSIGN_OR_RETURN(spec.merges, ReadStrings(file, "tokenizer.ggml.merges"));
  ASSIGN_OR_RETURN(spec.kinds, ReadKinds(file, spec.tokens.size()));
  ASSIGN_OR_RETURN(spec.bos, ReadId(file, "bos_token_id", spec.tokens.size()));
  ASSIGN_OR_RETURN(spec.eos, ReadId(file, "eos_token_id", spec.tokens.size()));
  ASSIGN_OR_RETURN(spec.end_tokens, ReadEndTokens(file, spec));
  ASSIGN_OR_RETURN(spec.named_tokens,
                   ReadNamedTokens(file, spec.tokens.size()));
  ASSIGN_OR_RETURN(const std::optional<bool> add_bos,
                   Optional(file.GetBool("tokenizer.ggml.add_bos_token")));
  spec.add_bos = add_bos.value_or(rules->adds_bos_by_default);
  ASSIGN_OR_RETURN(const std::optional<bool> add_eos,
                   Optional(file.GetBool("tokenizer.ggml.add_eos_token")));
  if (add_eos.value_or(false)) {
    return absl::UnimplementedError(
        "tokenizer.ggml.add_eos_token: wanted false, since a prompt that ends "
        "with EOS generates nothing; found true");
  }
  ASSIGN_OR_RETURN(std::optional<std::string> chat_template,
                   Optional(file.GetString("tokenizer.chat_template")));
  spec.chat_template = std::move(chat_template).value_or("");
  return spec;
}

}  // namespace kvasir
