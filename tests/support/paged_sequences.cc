#include "tests/support/paged_sequences.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

PagedSequences::PagedSequences(Transformer* transformer, const KvLayout& layout,
                               int64_t blocks, uint64_t seed)
    : transformer_(transformer),
      layout_(layout),
      pool_(new std::byte[blocks * layout.BlockBytes()]) {
  std::memset(pool_.get(), 0xff, blocks * layout.BlockBytes());
  for (int32_t i = 0; i < blocks; ++i) free_.emplace_back(i);
  TestRandom random(seed);
  for (int64_t i = blocks - 1; i > 0; --i) {
    std::swap(free_[i], free_[random.Below(i + 1)]);
  }
}

int64_t PagedSequences::Add(absl::Span<const TokenId> tokens) {
  sequences_.push_back({.tokens = {tokens.begin(), tokens.end()},
                        .computed = 0,
                        .blocks = {},
                        .logits = {}});
  return size() - 1;
}

int64_t PagedSequences::AddSharing(absl::Span<const TokenId> tokens,
                                   int64_t other, int64_t shared) {
  const Sequence& from = sequences_[other];
  KV_CHECK(shared % layout_.block_tokens == 0 && shared <= from.computed);
  KV_CHECK(
      std::equal(tokens.begin(), tokens.begin() + shared, from.tokens.begin()));
  std::vector<BlockId> blocks(
      from.blocks.begin(), from.blocks.begin() + shared / layout_.block_tokens);
  const int64_t index = Add(tokens);
  sequences_[index].computed = shared;
  sequences_[index].blocks = std::move(blocks);
  return index;
}

void PagedSequences::Step(absl::Span<const int64_t> counts) {
  std::vector<TokenId> tokens;
  std::vector<SequenceRows> rows;
  for (size_t i = 0; i < counts.size(); ++i) {
    Sequence& sequence = sequences_[i];
    if (counts[i] == 0) continue;
    const int64_t end = sequence.computed + counts[i];
    KV_CHECK(end <= static_cast<int64_t>(sequence.tokens.size()));
    while (static_cast<int64_t>(sequence.blocks.size()) <
           layout_.BlocksFor(end)) {
      KV_CHECK(!free_.empty()) << "the test's pool is too small";
      sequence.blocks.push_back(free_.back());
      free_.pop_back();
    }
    rows.push_back(
        {.first_row = static_cast<int64_t>(tokens.size()),
         .row_count = counts[i],
         .first_position = sequence.computed,
         .table = {pool_.get(), layout_.BlockBytes(), sequence.blocks}});
    tokens.insert(tokens.end(), sequence.tokens.begin() + sequence.computed,
                  sequence.tokens.begin() + end);
  }
  std::vector<int32_t> wanted(tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const auto logits = transformer_->Forward(
      layout_, {.tokens = tokens, .sequences = rows, .logit_rows = wanted});
  KV_CHECK(logits.ok()) << logits.status();
  int64_t row = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t count = counts[i]; count > 0; --count, ++row) {
      const float* values = logits->Row(row);
      sequences_[i].logits.emplace_back(values, values + logits->columns);
    }
    sequences_[i].computed += counts[i];
  }
}

void PagedSequences::Finish(int64_t sequence, int64_t chunk) {
  while (Remaining(sequence) > 0) {
    std::vector<int64_t> counts(sequence + 1, 0);
    counts[sequence] = std::min(chunk, Remaining(sequence));
    Step(counts);
  }
}

int64_t PagedSequences::Remaining(int64_t sequence) const {
  const Sequence& which = sequences_[sequence];
  return static_cast<int64_t>(which.tokens.size()) - which.computed;
}

const PagedSequences::Logits& PagedSequences::logits(int64_t sequence) const {
  return sequences_[sequence].logits;
}

}  // namespace kvasir
