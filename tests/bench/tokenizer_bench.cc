// Bytes a second through the tokenizer, on SmolLM2's vocabulary: English text,
// and runs that make the longest words a text can have.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "engine/model/tokenizer.h"
#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

constexpr size_t kTextBytes = 1'000'000;

std::string Repeat(const std::string& unit) {
  std::string text;
  while (text.size() < kTextBytes) text += unit;
  return text;
}

std::string English() {
  return Repeat(
      ReadFixture(KVASIR_SOURCE_DIR, "tests/fixtures/smollm2/kl_text.txt"));
}

void BM_Encode(benchmark::State& state, const std::string& pre_tokenizer,
               const std::string& text) {
  const auto tokenizer =
      MakeTokenizer(SmolLm2Spec(KVASIR_SOURCE_DIR, pre_tokenizer));
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer->Encode(text, false).size();
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}
BENCHMARK_CAPTURE(BM_Encode, smollm_english, "smollm", English());
BENCHMARK_CAPTURE(BM_Encode, gpt2_english, "gpt-2", English());
BENCHMARK_CAPTURE(BM_Encode, llama_english, "llama-bpe", English());
BENCHMARK_CAPTURE(BM_Encode, qwen2_english, "qwen2", English());
BENCHMARK_CAPTURE(BM_Encode, smollm_one_word, "smollm", Repeat("A"));
BENCHMARK_CAPTURE(BM_Encode, smollm_blanks, "smollm", Repeat(" "));
BENCHMARK_CAPTURE(BM_Encode, smollm_digits, "smollm", Repeat("9"));

void BM_DecodeText(benchmark::State& state) {
  const auto tokenizer = MakeTokenizer(SmolLm2Spec(KVASIR_SOURCE_DIR));
  const std::string text = English();
  const std::vector<TokenId> ids = tokenizer->Encode(text, false);
  for (auto _ : state) {
    benchmark::DoNotOptimize(DecodeText(*tokenizer, ids, true));
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_DecodeText);

}  // namespace
}  // namespace kvasir

BENCHMARK_MAIN();
