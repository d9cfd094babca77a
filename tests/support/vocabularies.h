#ifndef KVASIR_TESTS_SUPPORT_VOCABULARIES_H_
#define KVASIR_TESTS_SUPPORT_VOCABULARIES_H_

#include <memory>
#include <string>

#include "engine/model/tokenizer.h"

namespace kvasir {

// Vocabularies for tests. Any of them may be altered and then handed to
// Tokenizer::Create().

// That of SmolLM2, rebuilt from tests/fixtures/smollm2: 17 control tokens, 235
// single bytes, 48,900 merges. Without a chat template. `source_dir` is the
// root of the checkout. Aborts if the fixture cannot be read.
TokenizerSpec SmolLm2Spec(const std::string& source_dir,
                          const std::string& pre_tokenizer = "smollm");

// MakeTinyVocabulary(): three control tokens, all 256 bytes (byte b is id
// 3 + b) and a few merges, with <|im_start|> as BOS and <|im_end|> as EOS.
TokenizerSpec TinySpec(const std::string& pre_tokenizer = "smollm");

// The whole of a file under `source_dir`. Aborts if it cannot be read.
std::string ReadFixture(const std::string& source_dir, const std::string& path);

// Aborts with the status if `spec` is refused.
std::unique_ptr<Tokenizer> MakeTokenizer(TokenizerSpec spec);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_VOCABULARIES_H_
