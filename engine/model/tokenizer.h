#ifndef KVASIR_ENGINE_MODEL_TOKENIZER_H_
#define KVASIR_ENGINE_MODEL_TOKENIZER_H_

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

// What a vocabulary is made of; a model file or a test fills it in.
struct TokenizerSpec {
  enum class Kind : uint8_t {
    kNormal,
    kUnknown,
    kControl,
    kUserDefined,
    kUnused,
    kByte
  };
  std::string model = "gpt2";  // byte-level BPE
  std::string pre_tokenizer;   // "smollm", "gpt-2", "llama-bpe", "qwen2"
  std::vector<std::string> tokens;
  std::vector<Kind> kinds;          // as many as tokens
  std::vector<std::string> merges;  // "left right", most important first
  TokenId bos = -1;                 // -1: none
  TokenId eos = -1;
  std::vector<TokenId> end_tokens;  // every id that ends a generation
  bool add_bos = false;
  std::string chat_template;  // as the file carries it; may be empty
};

// Reads tokenizer.ggml.* of a model file. UNIMPLEMENTED for a tokenizer model
// or pre-tokenizer without support, INVALID_ARGUMENT for a malformed
// vocabulary.
absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file);

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
// (FIELD_CASES TOK-1), and no recursion.
class Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();

  // Ids of the pieces in order. With `add_special`, starts with exactly one BOS
  // token if the model wants one, also when the text already begins with it.
  std::vector<TokenId> Encode(absl::Span<const TextPiece> pieces,
                              bool add_special) const;
  std::vector<TokenId> Encode(std::string_view text, bool add_special) const;

  // The bytes of the ids, control tokens as their text or, with `skip_special`,
  // as nothing. Ids must be in [0, size()). Not necessarily whole UTF-8.
  std::string Decode(absl::Span<const TokenId> ids, bool skip_special) const;

  // The bytes one id stands for (a control token's text included).
  std::string_view TokenBytes(TokenId id) const;
  bool IsControl(TokenId id) const;
  bool IsEnd(TokenId id) const;  // ends a generation

  int32_t size() const;
  TokenId bos() const;
  TokenId eos() const;
  absl::Span<const TokenId> end_tokens() const;
  bool adds_bos() const;
  const std::string& chat_template() const;

  // SHA-256 of everything that decides ids, lower-case hex.
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
