#include "engine/model/tokenizer.h"

#include <algorithm>
#include <cstddef>

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/model/byte_pair_merger.h"
#include "engine/model/pre_tokenizer.h"
#include "engine/model/special_tokens.h"
#include "engine/model/vocabulary.h"
#include "engine/template/template.h"

namespace kvasir {
namespace {

// The chat format of a model that has ChatML's tokens and names none.
constexpr std::string_view kChatMl =
    "{% if tools %}"
    "{{ raise_exception('tools: this model has no chat template') }}"
    "{% endif %}"
    "{% for message in messages %}"
    "{% if message.tool_calls %}"
    "{{ raise_exception('tool_calls: this model has no chat template') }}"
    "{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::vector<TokenizerSpec::Kind> kinds;  // by id
  TokenId bos = -1;
  TokenId eos = -1;
  std::vector<TokenId> end_tokens;  // rising
  bool add_bos = false;
  std::string chat_template;
  std::vector<std::pair<std::string, TokenId>> named_tokens;
  absl::StatusOr<jinja::Template> chat_format = absl::UnknownError("");
  std::string digest;

  void RequireValid(TokenId id) const {
    KV_CHECK(id >= 0 && static_cast<size_t>(id) < kinds.size())
        << "token " << id << " of " << kinds.size();
  }

  void EncodeOrdinary(std::string_view text, BytePairMerger& merger) const {
    pre_tokenizer->Split(text, [&](std::string_view word) {
      const auto it = vocabulary.whole_words.find(word);
      if (it == vocabulary.whole_words.end()) {
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
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(const PreTokenizerRules* rules,
                   FindPreTokenizerRules(spec.pre_tokenizer));
  ASSIGN_OR_RETURN(impl->pre_tokenizer, PreTokenizer::Create(*rules));
  ASSIGN_OR_RETURN(impl->vocabulary,
                   BuildVocabulary(spec, rules->ignores_merges));
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
  impl->named_tokens = std::move(spec.named_tokens);
  impl->chat_format = jinja::Template::Parse(
      impl->chat_template.empty() ? kChatMl : impl->chat_template);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<TokenId> Tokenizer::Encode(absl::Span<const TextPiece> pieces,
                                       bool add_special) const {
  size_t size = 0;
  for (const TextPiece& piece : pieces) size += piece.text.size();
  KV_CHECK(size <= kMaxEncodeBytes) << size << " bytes";
  BytePairMerger merger(&impl_->vocabulary.merges);
  const bool wants_bos = add_special && impl_->add_bos;
  if (wants_bos) merger.AppendToken(impl_->bos);
  std::string ordinary;  // text between two special tokens
  for (const TextPiece& piece : pieces) {
    for (size_t from = 0; from < piece.text.size();) {
      const SpecialTokens::Found found = impl_->vocabulary.specials.Find(
          piece.text, from, piece.parse_special);
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
  return impl_->vocabulary.bytes[id];
}

bool Tokenizer::IsControl(TokenId id) const {
  impl_->RequireValid(id);
  return IsControlKind(impl_->kinds[id]);
}

bool Tokenizer::IsEnd(TokenId id) const {
  return std::binary_search(impl_->end_tokens.begin(), impl_->end_tokens.end(),
                            id);
}

bool Tokenizer::IsUnused(TokenId id) const {
  impl_->RequireValid(id);
  const bool is_empty = impl_->kinds[id] == TokenizerSpec::Kind::kUnused ||
                        impl_->vocabulary.bytes[id].empty();
  return is_empty && !IsEnd(id);
}

int32_t Tokenizer::size() const {
  return static_cast<int32_t>(impl_->kinds.size());
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
absl::Span<const std::pair<std::string, TokenId>> Tokenizer::named_tokens()
    const {
  return impl_->named_tokens;
}
const absl::StatusOr<jinja::Template>& Tokenizer::chat_format() const {
  return impl_->chat_format;
}
const std::string& Tokenizer::Digest() const { return impl_->digest; }

}  // namespace kvasir
