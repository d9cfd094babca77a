#include "engine/model/tokenizer.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/byte_alphabet.h"
#include "engine/model/byte_pair_merger.h"
#include "engine/model/pre_tokenizer.h"
#include "engine/model/special_tokens.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

using Kind = TokenizerSpec::Kind;
using TokenIds = absl::flat_hash_map<std::string_view, TokenId>;

constexpr size_t kMaxVocabularyTokens = size_t{1} << 24;

bool IsControlKind(Kind kind) {
  return kind == Kind::kControl || kind == Kind::kUnknown;
}

absl::Status Malformed(absl::string_view field, absl::string_view wanted,
                       absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer.ggml.", field, ": wanted ", wanted, "; found ", found));
}

absl::Status CheckId(absl::string_view field, TokenId id, size_t size) {
  if (id >= 0 && static_cast<size_t>(id) < size) return absl::OkStatus();
  return Malformed(field, absl::StrCat("an id below ", size), absl::StrCat(id));
}

absl::Status CheckSpec(const TokenizerSpec& spec) {
  const size_t size = spec.tokens.size();
  if (spec.model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat(
        "tokenizer.ggml.model: wanted \"gpt2\" (byte-level BPE); found ",
        QuoteText(spec.model)));
  }
  if (size == 0 || size > kMaxVocabularyTokens) {
    return Malformed("tokens", absl::StrCat("1 to ", kMaxVocabularyTokens),
                     absl::StrCat(size));
  }
  if (spec.kinds.size() != size) {
    return Malformed("token_type", absl::StrCat(size, ", one per token"),
                     absl::StrCat(spec.kinds.size()));
  }
  for (size_t id = 0; id < size; ++id) {
    if (spec.kinds[id] != Kind::kByte) continue;
    return Malformed(absl::StrCat("token_type[", id, "]"),
                     "a kind of byte-level BPE",
                     "BYTE, which SentencePiece vocabularies have");
  }
  if (spec.bos != -1) RETURN_IF_ERROR(CheckId("bos_token_id", spec.bos, size));
  if (spec.eos != -1) RETURN_IF_ERROR(CheckId("eos_token_id", spec.eos, size));
  for (const TokenId id : spec.end_tokens) {
    RETURN_IF_ERROR(CheckId("end tokens", id, size));
  }
  if (spec.add_bos && spec.bos < 0) {
    return Malformed("bos_token_id", "an id, since add_bos_token is true",
                     "none");
  }
  return absl::OkStatus();
}

// The ids of all token texts. Empty texts, which some files use for unused
// places, have none.
absl::StatusOr<TokenIds> IndexTokens(const TokenizerSpec& spec) {
  TokenIds ids;
  ids.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    if (token.empty()) continue;
    const auto [it, is_new] = ids.try_emplace(token, static_cast<TokenId>(id));
    if (is_new) continue;
    return Malformed(absl::StrCat("tokens[", id, "]"), "a token of its own",
                     absl::StrCat(QuoteText(token), ", as tokens[", it->second,
                                  "] is already"));
  }
  return ids;
}

// `bytes` are what each token stands for.
absl::StatusOr<MergeTable> MakeMergeTable(const TokenizerSpec& spec,
                                          const TokenIds& ids,
                                          absl::Span<const std::string> bytes) {
  MergeTable table;
  for (int byte = 0; byte < 256; ++byte) {
    const auto it = ids.find(AlphabetCharacter(static_cast<uint8_t>(byte)));
    const bool has_token =
        it != ids.end() && !IsControlKind(spec.kinds[it->second]) &&
        bytes[it->second] == std::string(1, static_cast<char>(byte));
    table.byte_tokens[byte] = has_token ? it->second : -1;
  }
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const std::string field = absl::StrCat("merges[", rank, "]");
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return Malformed(field, "two tokens with a space between",
                       QuoteText(merge));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    for (const std::string_view token : {left, right, {joined}}) {
      if (ids.contains(token)) continue;
      return Malformed(field, "tokens of the vocabulary that join to another",
                       absl::StrCat(QuoteText(merge), "; ", QuoteText(token),
                                    " is no token"));
    }
    const TokenId result = ids.at(joined);
    if (IsControlKind(spec.kinds[result])) continue;  // never made from text
    table.Add(ids.at(left), ids.at(right),
              {static_cast<int32_t>(rank), result});
  }
  return table;
}

// Every field has its length in front, so that no two specifications give the
// same input.
std::string DigestOf(const TokenizerSpec& spec) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  KV_CHECK(context != nullptr);
  KV_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  auto add_bytes = [&](const void* data, size_t size) {
    const uint64_t length = size;
    EVP_DigestUpdate(context, &length, sizeof(length));
    EVP_DigestUpdate(context, data, size);
  };
  auto add_text = [&](std::string_view text) {
    add_bytes(text.data(), text.size());
  };
  auto add_texts = [&](const std::vector<std::string>& texts) {
    add_text(absl::StrCat(texts.size()));
    for (const std::string& text : texts) add_text(text);
  };
  add_text("kvasir tokenizer 1");
  add_text(spec.model);
  add_text(spec.pre_tokenizer);
  add_texts(spec.tokens);
  add_bytes(spec.kinds.data(), spec.kinds.size());
  add_texts(spec.merges);
  add_text(absl::StrCat(spec.bos, " ", spec.eos, " ", spec.add_bos));
  add_bytes(spec.end_tokens.data(), spec.end_tokens.size() * sizeof(TokenId));
  add_text(spec.chat_template);
  uint8_t digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  KV_CHECK(EVP_DigestFinal_ex(context, digest, &size) == 1);
  EVP_MD_CTX_free(context);
  return absl::BytesToHexString(
      std::string(reinterpret_cast<const char*>(digest), size));
}

}  // namespace

struct Tokenizer::Impl {
  // What ids become, by id.
  std::vector<std::string> bytes;
  std::vector<Kind> kinds;

  // What text becomes ids by, in the order of use.
  SpecialTokens specials;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  TokenIds whole_words;  // keys lie in `bytes`; empty unless merges are ignored
  MergeTable merges;

  TokenId bos = -1;
  TokenId eos = -1;
  std::vector<TokenId> end_tokens;  // rising
  bool add_bos = false;
  std::string chat_template;
  std::string digest;

  void RequireValid(TokenId id) const {
    KV_CHECK(id >= 0 && static_cast<size_t>(id) < bytes.size())
        << "token " << id << " of " << bytes.size();
  }

  void EncodeOrdinary(std::string_view text, BytePairMerger& merger) const {
    pre_tokenizer->Split(text, [&](std::string_view word) {
      const auto it = whole_words.find(word);
      if (it == whole_words.end()) {
        merger.AppendWord(word);
      } else {
        merger.AppendToken(it->second);
      }
    });
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    TokenizerSpec spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  ASSIGN_OR_RETURN(const PreTokenizerRules* rules,
                   FindPreTokenizerRules(spec.pre_tokenizer));
  ASSIGN_OR_RETURN(const TokenIds ids, IndexTokens(spec));
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->pre_tokenizer, PreTokenizer::Create(*rules));
  impl->bytes.reserve(spec.tokens.size());
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string& token = spec.tokens[i];
    const bool is_control = IsControlKind(spec.kinds[i]);
    const bool is_special = is_control || spec.kinds[i] == Kind::kUserDefined;
    if (is_special && !token.empty()) {
      impl->specials.Add(token, static_cast<TokenId>(i), is_control);
    }
    // Outside the alphabet only in odd files; the reference takes such a token
    // as it stands.
    std::optional<std::string> bytes;
    if (!is_special) bytes = BytesFromAlphabet(token);
    const bool is_word = bytes.has_value() && spec.kinds[i] == Kind::kNormal;
    impl->bytes.push_back(bytes.has_value() ? *std::move(bytes) : token);
    if (is_word && rules->ignores_merges) {
      impl->whole_words.try_emplace(impl->bytes[i], static_cast<TokenId>(i));
    }
  }
  ASSIGN_OR_RETURN(impl->merges, MakeMergeTable(spec, ids, impl->bytes));
  impl->digest = DigestOf(spec);
  impl->kinds = std::move(spec.kinds);
  impl->bos = spec.bos;
  impl->eos = spec.eos;
  impl->end_tokens = std::move(spec.end_tokens);
  if (spec.eos >= 0) impl->end_tokens.push_back(spec.eos);
  std::sort(impl->end_tokens.begin(), impl->end_tokens.end());
  impl->end_tokens.erase(
      std::unique(impl->end_tokens.begin(), impl->end_tokens.end()),
      impl->end_tokens.end());
  impl->add_bos = spec.add_bos;
  impl->chat_template = std::move(spec.chat_template);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<TokenId> Tokenizer::Encode(absl::Span<const TextPiece> pieces,
                                       bool add_special) const {
  size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.text.size();
  KV_CHECK(size <= kMaxEncodeBytes) << size << " bytes";
  BytePairMerger merger(&impl_->merges);
  const bool wants_bos = add_special && impl_->add_bos;
  if (wants_bos) merger.AppendToken(impl_->bos);
  std::string ordinary;  // text between two special tokens
  for (const TextPiece& piece : pieces) {
    for (size_t from = 0; from < piece.text.size();) {
      const SpecialTokens::Found found =
          impl_->specials.Find(piece.text, from, piece.parse_special);
      ordinary.append(piece.text.substr(from, found.position - from));
      from = found.position + found.bytes;
      if (found.bytes == 0) break;
      impl_->EncodeOrdinary(ordinary, merger);
      ordinary.clear();
      merger.AppendToken(found.id);
    }
  }
  impl_->EncodeOrdinary(ordinary, merger);
  std::vector<TokenId> ids = merger.TakeIds();
  if (wants_bos) {
    auto is_other = [&](TokenId id) { return id != impl_->bos; };
    const auto rest = std::find_if(ids.begin(), ids.end(), is_other);
    ids.erase(ids.begin() + 1, rest);
  }
  return ids;
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text,
                                       bool add_special) const {
  const TextPiece piece = {text, /*parse_special=*/false};
  return Encode(absl::MakeConstSpan(&piece, 1), add_special);
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids,
                              bool skip_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special || !IsControl(id)) text.append(TokenBytes(id));
  }
  return text;
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  impl_->RequireValid(id);
  return impl_->bytes[id];
}

bool Tokenizer::IsControl(TokenId id) const {
  impl_->RequireValid(id);
  return IsControlKind(impl_->kinds[id]);
}

bool Tokenizer::IsEnd(TokenId id) const {
  return std::binary_search(impl_->end_tokens.begin(), impl_->end_tokens.end(),
                            id);
}

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(impl_->bytes.size());
}
TokenId Tokenizer::bos() const { return impl_->bos; }
TokenId Tokenizer::eos() const { return impl_->eos; }
absl::Span<const TokenId> Tokenizer::end_tokens() const {
  return impl_->end_tokens;
}
bool Tokenizer::adds_bos() const { return impl_->add_bos; }
const std::string& Tokenizer::chat_template() const {
  return impl_->chat_template;
}
const std::string& Tokenizer::Digest() const { return impl_->digest; }

}  // namespace kvasir
