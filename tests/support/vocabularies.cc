#include "tests/support/vocabularies.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "cache/base/check.h"
#include "engine/model/byte_alphabet.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr const char* kSmolLm2Control[] = {
    "<|endoftext|>",  "<|im_start|>",    "<|im_end|>",       "<repo_name>",
    "<reponame>",     "<file_sep>",      "<filename>",       "<gh_stars>",
    "<issue_start>",  "<issue_comment>", "<issue_closed>",   "<jupyter_start>",
    "<jupyter_text>", "<jupyter_code>",  "<jupyter_output>", "<jupyter_script>",
    "<empty_output>",
};

// Bytes that SmolLM2 has no token for.
constexpr uint8_t kSmolLm2Missing[] = {
    0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, 0xF5,
    0xF6, 0xF7, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF};

}  // namespace

std::string ReadFixture(const std::string& source_dir,
                        const std::string& path) {
  std::ifstream file(source_dir + "/" + path, std::ios::binary);
  KV_CHECK(file.good()) << "cannot read " << source_dir << "/" << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TokenizerSpec SmolLm2Spec(const std::string& source_dir,
                          const std::string& pre_tokenizer) {
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  spec.tokens.assign(std::begin(kSmolLm2Control), std::end(kSmolLm2Control));
  spec.kinds.assign(spec.tokens.size(), TokenizerSpec::Kind::kControl);
  std::vector<std::string> alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    if (std::count(std::begin(kSmolLm2Missing), std::end(kSmolLm2Missing),
                   byte) == 0) {
      alphabet.emplace_back(AlphabetCharacter(static_cast<uint8_t>(byte)));
    }
  }
  std::sort(alphabet.begin(), alphabet.end());
  spec.tokens.insert(spec.tokens.end(), alphabet.begin(), alphabet.end());
  std::istringstream lines(
      ReadFixture(source_dir, "tests/fixtures/smollm2/merges.txt"));
  for (std::string merge; std::getline(lines, merge);) {
    std::string token = merge;
    token.erase(token.find(' '), 1);
    spec.tokens.push_back(std::move(token));
    spec.merges.push_back(std::move(merge));
  }
  spec.kinds.resize(spec.tokens.size(), TokenizerSpec::Kind::kNormal);
  spec.bos = 1;
  spec.eos = 2;
  spec.end_tokens = {0, 2};
  return spec;
}

TokenizerSpec TinySpec(const std::string& pre_tokenizer) {
  TinyVocabulary vocabulary = MakeTinyVocabulary(0);
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  spec.tokens = std::move(vocabulary.tokens);
  spec.merges = std::move(vocabulary.merges);
  for (const int32_t kind : vocabulary.kinds) {
    spec.kinds.push_back(static_cast<TokenizerSpec::Kind>(kind - 1));
  }
  spec.bos = 1;
  spec.eos = 2;
  spec.end_tokens = {0, 2};
  return spec;
}

std::unique_ptr<Tokenizer> MakeTokenizer(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  KV_CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace kvasir
