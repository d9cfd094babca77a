#include "engine/model/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

// The patterns as the reference libraries publish them, with three changes of
// form: \s is \p{White_Space}, \S and [^\s...] are its complements, and
// "smollm", which first sets every digit apart and then applies GPT-2's pattern
// to each part, is one pattern: \p{N} takes one digit and no space before it,
// and a run of white space before a digit ends where its part does.

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d)"
                                   R"(| ?\p{L}+)"
                                   R"(| ?\p{N}+)"
                                   R"(| ?[^\p{White_Space}\p{L}\p{N}]+)"
                                   R"(|\p{White_Space}+(?!\P{White_Space}))"
                                   R"(|\p{White_Space}+)";

constexpr std::string_view kSmollm =
    R"('s|'t|'re|'ve|'m|'ll|'d)"
    R"(| ?\p{L}+)"
    R"(|\p{N})"
    R"(| ?[^\p{White_Space}\p{L}\p{N}]+)"
    R"(|\p{White_Space}+(?![^\p{White_Space}\p{N}]))"
    R"(|\p{White_Space}+)";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+)"
    R"(|\p{N}{1,3})"
    R"(| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*)"
    R"(|\p{White_Space}*[\r\n]+)"
    R"(|\p{White_Space}+(?!\P{White_Space}))"
    R"(|\p{White_Space}+)";

// Differs from Llama 3's in the numbers only.
constexpr std::string_view kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
                                    R"(|[^\r\n\p{L}\p{N}]?\p{L}+)"
                                    R"(|\p{N})"
                                    R"(| ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*)"
                                    R"(|\p{White_Space}*[\r\n]+)"
                                    R"(|\p{White_Space}+(?!\P{White_Space}))"
                                    R"(|\p{White_Space}+)";

constexpr PreTokenizerRules kRules[] = {
    {"smollm", kSmollm, /*ignores_merges=*/false,
     /*adds_bos_by_default=*/false},
    {"gpt-2", kGpt2, false, false},
    {"llama-bpe", kLlama3, true, true},
    {"qwen2", kQwen2, false, false},
};

struct CodeDelete {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct ContextDelete {
  void operator()(pcre2_match_context* context) const {
    pcre2_match_context_free(context);
  }
};
struct MatchDelete {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using Match = std::unique_ptr<pcre2_match_data, MatchDelete>;

std::string Pcre2Message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

absl::StatusOr<const PreTokenizerRules*> FindPreTokenizerRules(
    std::string_view name) {
  std::string known;
  for (const PreTokenizerRules& rules : kRules) {
    if (rules.name == name) return &rules;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(rules.name));
  }
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.ggml.pre: wanted one of ", known, "; found ",
                   QuoteText(name)));
}

struct PreTokenizer::Impl {
  std::unique_ptr<pcre2_code, CodeDelete> code;
  std::unique_ptr<pcre2_match_context, ContextDelete> context;

  // The end of the piece of `text` that starts at `begin`. `text` is well
  // formed and goes on at `begin`.
  size_t PieceEnd(std::string_view text, size_t begin, Match& match) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int result = pcre2_match(code.get(), subject, text.size(), begin,
                             PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result = pcre2_match(code.get(), subject, text.size(), begin,
                           PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(),
                           context.get());
    }
    KV_CHECK(result > 0) << "at byte " << begin << " of " << text.size() << ": "
                         << Pcre2Message(result);
    const size_t end = pcre2_get_ovector_pointer(match.get())[1];
    KV_CHECK(end > begin && end <= text.size()) << begin << " to " << end;
    return end;
  }
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(
    const PreTokenizerRules& rules) {
  int error = 0;
  size_t offset = 0;
  auto impl = std::make_unique<Impl>();
  // Anchored in the pattern, since an anchor asked for at match time would keep
  // the compiled machine code from being used.
  impl->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(rules.pattern.data()), rules.pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (impl->code == nullptr) {
    return absl::InternalError(
        absl::StrCat("pattern of pre-tokenizer ", std::string(rules.name),
                     " at offset ", offset, ": ", Pcre2Message(error)));
  }
  // Fails where memory may not be executable; then matching is interpreted.
  (void)pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);
  impl->context.reset(pcre2_match_context_create(nullptr));
  KV_CHECK(impl->context != nullptr);
  // The default, ten million steps, is less than a run of spaces may need.
  pcre2_set_match_limit(impl->context.get(), UINT32_MAX);
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

void PreTokenizer::Split(std::string_view text,
                         absl::FunctionRef<void(std::string_view)> take) const {
  Match match(pcre2_match_data_create(1, nullptr));
  KV_CHECK(match != nullptr);
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin;
    while (end < text.size()) {
      const Utf8Start start = ReadUtf8(text.substr(end));
      if (start.kind != Utf8Start::Kind::kCharacter) break;
      end += start.bytes;
    }
    const std::string_view well_formed = text.substr(begin, end - begin);
    for (size_t at = 0; at < well_formed.size();) {
      const size_t piece_end = impl_->PieceEnd(well_formed, at, match);
      take(well_formed.substr(at, piece_end - at));
      at = piece_end;
    }
    begin = end;
    if (begin < text.size()) take(text.substr(begin++, 1));
  }
}

}  // namespace kvasir
