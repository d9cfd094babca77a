#ifndef KVASIR_ENGINE_MODEL_TOKENIZER_H_
#define KVASIR_ENGINE_MODEL_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class GgufFile;
namespace jinja {
class Template;
}  // namespace jinja

// What a vocabulary is made of; a model file or a test fills it in.
struct TokenizerSpec {
  enum class Kind : uint8_t {
    kNormal,
    kUnknown,  // treated as kControl
    kControl,
    kUserDefined,  // found in any text as it stands, before any merge
    kUnused,
    kByte,  // of SentencePiece only
  };
  std::string model = "gpt2";  // byte-level BPE
  std::string pre_tokenizer;   // "smollm", "gpt-2", "llama-bpe", "qwen2"
  std::vector<std::string> tokens;
  std::vector<Kind> kinds;          // as many as tokens
  std::vector<std::string> merges;  // "left right", most important first
  TokenId bos = -1;                 // -1: none
  TokenId eos = -1;
  std::vector<TokenId> end_tokens;  // every id that ends a generation
  // Further tokens by what chat templates call them: "unk_token", "pad_token".
  std::vector<std::pair<std::string, TokenId>> named_tokens;
  bool add_bos = false;
  std::string chat_template;  // as the file carries it; may be empty
};

// Reads tokenizer.ggml.* of a model file. UNIMPLEMENTED for a tokenizer model
// or pre-tokenizer without support, INVALID_ARGUMENT for a malformed
// vocabulary.
//
// `end_tokens` are the eos, eot and eom ids and every control token whose text
// is known to end a turn, since files often name only one of several. Where the
// file does not say whether it wants a BOS token, llama.cpp's rule holds: only
// "llama-bpe" does.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file);

// The most text one Encode() takes, pieces together. Callers refuse more.
inline constexpr size_t kMaxEncodeBytes = size_t{1} << 30;

// One piece of text with the right to contain control tokens or not.
struct TextPiece {
  std::string_view text;
  // True: text such as "<|im_start|>" becomes that token. Only for text that a
  // template wrote; a user's text never becomes a control token.
  bool parse_special = false;
};

// Text <-> ids for one vocabulary. Immutable after Create(); any thread.
//
// Encoding takes near-linear time in the text's length, whatever the text
// (FIELD_CASES TOK-1), and no recursion. It cannot fail: bytes that are not
// UTF-8 become the tokens of those bytes. Decoding gives every byte back, but
// for bytes that the vocabulary has no token for; as in the reference library
// those vanish (SmolLM2's lacks 21, all of them controls or never in UTF-8
// except the leading bytes F1 and F2 of planes 4 to 11).
class Tokenizer {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED, as ReadTokenizerSpec(), with the field's
  // name in the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();

  // Ids of the pieces, read as one text: where one piece ends does not show in
  // the ids, except that no special token reaches over it. With `add_special`,
  // starts with exactly one BOS token if the model wants one, also when the
  // text already begins with it.
  std::vector<TokenId> Encode(absl::Span<const TextPiece> pieces,
                              bool add_special) const;
  // The same for one piece of a user's text.
  std::vector<TokenId> Encode(std::string_view text, bool add_special) const;

  // The bytes of the ids, control tokens as their text or, with `skip_special`,
  // as nothing. Ids must be in [0, size()). Not necessarily whole UTF-8.
  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

  // The bytes one id stands for (a control token's text included).
  std::string_view TokenBytes(TokenId id) const;
  bool IsControl(TokenId id) const;  // of kind kControl or kUnknown
  bool IsEnd(TokenId id) const;      // ends a generation
  // A place in the vocabulary that holds no token: of kind kUnused or without a
  // text, as converters pad with. Never an end. Text never becomes one.
  bool IsUnused(TokenId id) const;

  int32_t size() const;
  TokenId bos() const;
  TokenId eos() const;
  absl::Span<const TokenId> end_tokens() const;
  bool adds_bos() const;
  // Beside BOS and EOS, as TokenizerSpec has them.
  absl::Span<const std::pair<std::string, TokenId>> named_tokens() const;
  const std::string& chat_template() const;
  // It, parsed when the tokenizer was made, or why it cannot be; ChatML if
  // there is no template.
  const absl::StatusOr<jinja::Template>& chat_format() const;

  // SHA-256 of everything that decides ids (the whole specification, the chat
  // template too), lower-case hex.
  const std::string& Digest() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of ids into a stream of whole UTF-8 characters. Bytes of an
// unfinished character are held back until it is whole; bytes that cannot
// become one are replaced by U+FFFD, exactly as one call over all ids would
// (contract C9: the joined pieces equal DecodeText of all ids).
//
// One per sequence; the tokenizer outlives it. One thread at a time.
class TextDecoder {
 public:
  TextDecoder(const Tokenizer* tokenizer, bool skip_special);

  // The text that `id` completes; often empty inside a character.
  std::string Push(TokenId id);

  // What is still held back when the stream ends: U+FFFD for an unfinished
  // character, else nothing.
  std::string Finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;
};

// All ids at once: Push() for each and Finish().
std::string DecodeText(const Tokenizer& tokenizer,
                       absl::Span<const TokenId> ids, bool skip_special);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_TOKENIZER_H_
