#include "tests/fuzz/tokenizer_input.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/base/check.h"
#include "engine/model/tokenizer.h"
#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

std::vector<std::unique_ptr<Tokenizer>> MakeAll() {
  std::vector<std::unique_ptr<Tokenizer>> all;
  for (const char* name : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    TokenizerSpec spec = TinySpec(name);
    spec.tokens.emplace_back("<a");
    spec.kinds.push_back(TokenizerSpec::Kind::kUserDefined);
    all.push_back(MakeTokenizer(std::move(spec)));
  }
  return all;
}

std::vector<TokenId> CheckText(const Tokenizer& tokenizer,
                               std::string_view text, bool parse_special) {
  // Two pieces, so that borders and special tokens meet.
  const size_t half = text.size() / 2;
  const TextPiece pieces[] = {{text.substr(0, half), parse_special},
                              {text.substr(half), parse_special}};
  const std::vector<TokenId> ids = tokenizer.Encode(pieces, true);
  KV_CHECK(tokenizer.Decode(ids, false) == text);
  std::string joined;
  TextDecoder decoder(&tokenizer, false);
  for (const TokenId id : ids) {
    KV_CHECK(parse_special || !tokenizer.IsControl(id)) << id;
    joined += decoder.Push(id);
  }
  KV_CHECK(joined + decoder.Finish() == DecodeText(tokenizer, ids, false));
  return ids;
}

}  // namespace

size_t RunTokenizerInput(absl::Span<const uint8_t> bytes) {
  static const auto& all =
      *new std::vector<std::unique_ptr<Tokenizer>>(MakeAll());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  std::set<TokenId> seen;
  for (const auto& tokenizer : all) {
    for (const bool parse_special : {false, true}) {
      const std::vector<TokenId> ids =
          CheckText(*tokenizer, text, parse_special);
      seen.insert(ids.begin(), ids.end());
    }
  }
  return seen.size();
}

}  // namespace kvasir
