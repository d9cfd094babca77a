#include "engine/model/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/byte_alphabet.h"
#include "engine/model/sha256.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

using Kind = TokenizerSpec::Kind;
using TokenIds = absl::flat_hash_map<std::string_view, TokenId>;

constexpr size_t kMaxVocabularyTokens = size_t{1} << 24;
// Far beyond any token: the longest of public vocabularies are runs of a few
// hundred blanks. A byte of a special token is a node of a trie, some 40 bytes
// of memory, and a search may walk down a whole token at every byte of a text.
constexpr size_t kMaxTokenBytes = 1024;
constexpr size_t kMaxSpecialBytes = size_t{1} << 20;  // all of them together

absl::Status Malformed(absl::string_view field, absl::string_view wanted,
                       absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "tokenizer.ggml.", field, ": wanted ", wanted, "; found ", found));
}

absl::Status CheckId(absl::string_view field, TokenId id, size_t size) {
  if (id >= 0 && static_cast<size_t>(id) < size) return absl::OkStatus();
  return Malformed(field, absl::StrCat("an id below ", size), absl::StrCat(id));
}

bool IsSpecial(Kind kind) {
  return IsControlKind(kind) || kind == Kind::kUserDefined;
}

// Whether merges may make such a token.
bool IsMadeFromText(Kind kind) {
  return !IsControlKind(kind) && kind != Kind::kUnused;
}

// `spec` has a kind for each token.
absl::Status CheckTexts(const TokenizerSpec& spec) {
  size_t special_bytes = 0;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const size_t bytes = spec.tokens[id].size();
    if (bytes > kMaxTokenBytes) {
      return Malformed(absl::StrCat("tokens[", id, "]"),
                       absl::StrCat("at most ", kMaxTokenBytes, " bytes"),
                       absl::StrCat(bytes));
    }
    if (IsSpecial(spec.kinds[id])) special_bytes += bytes;
  }
  if (special_bytes <= kMaxSpecialBytes) return absl::OkStatus();
  return Malformed("tokens",
                   absl::StrCat("control and user-defined tokens of at most ",
                                kMaxSpecialBytes, " bytes together"),
                   absl::StrCat(special_bytes));
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
  RETURN_IF_ERROR(CheckTexts(spec));
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
        it != ids.end() && IsMadeFromText(spec.kinds[it->second]) &&
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
    if (!IsMadeFromText(spec.kinds[result])) continue;
    table.Add(ids.at(left), ids.at(right),
              {static_cast<int32_t>(rank), result});
  }
  return table;
}

// The same on every machine.
std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text.push_back(static_cast<char>(value >> (8 * i)));
  }
  return text;
}

// Every field has its length in front, so that no two specifications give the
// same input.
class FieldHash {
 public:
  void Text(std::string_view text) {
    hash_.Update(LittleEndian(text.size(), sizeof(uint64_t)));
    hash_.Update(text);
  }
  void Texts(const std::vector<std::string>& texts) {
    Text(absl::StrCat(texts.size()));
    for (const std::string& text : texts) Text(text);
  }
  std::string Hex() const { return hash_.Hex(); }

 private:
  Sha256 hash_;
};

}  // namespace

bool IsControlKind(Kind kind) {
  return kind == Kind::kControl || kind == Kind::kUnknown;
}

absl::StatusOr<Vocabulary> BuildVocabulary(const TokenizerSpec& spec,
                                           bool ignores_merges) {
  RETURN_IF_ERROR(CheckSpec(spec));
  ASSIGN_OR_RETURN(const TokenIds ids, IndexTokens(spec));
  Vocabulary out;
  out.bytes.reserve(spec.tokens.size());  // its strings must not move again
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string& token = spec.tokens[i];
    const auto id = static_cast<TokenId>(i);
    const bool is_control = IsControlKind(spec.kinds[i]);
    std::optional<std::string> bytes;
    if (!IsSpecial(spec.kinds[i])) {
      bytes = BytesFromAlphabet(token);
    } else if (!token.empty()) {
      out.specials.Add(token, id, is_control);
    }
    const bool is_word = bytes.has_value() && spec.kinds[i] == Kind::kNormal;
    out.bytes.push_back(bytes.has_value() ? *std::move(bytes) : token);
    if (is_word && ignores_merges) {
      out.whole_words.try_emplace(out.bytes[i], id);
    }
  }
  ASSIGN_OR_RETURN(out.merges, MakeMergeTable(spec, ids, out.bytes));
  return out;
}

std::string DigestOf(const TokenizerSpec& spec) {
  FieldHash hash;
  hash.Text("kvasir tokenizer 1");
  hash.Text(spec.model);
  hash.Text(spec.pre_tokenizer);
  hash.Texts(spec.tokens);
  hash.Text({reinterpret_cast<const char*>(spec.kinds.data()),
             spec.kinds.size() * sizeof(Kind)});
  hash.Texts(spec.merges);
  hash.Text(absl::StrCat(spec.bos, " ", spec.eos, " ", spec.add_bos));
  std::string ends;
  for (const TokenId id : spec.end_tokens) {
    ends += LittleEndian(static_cast<uint32_t>(id), sizeof(TokenId));
  }
  hash.Text(ends);
  hash.Text(spec.chat_template);
  for (const auto& [name, id] : spec.named_tokens) {
    hash.Text(absl::StrCat(name, " ", id));
  }
  return hash.Hex();
}

}  // namespace kvasir
