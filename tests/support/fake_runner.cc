#include "tests/support/fake_runner.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "cache/kv_layout.h"
#include "engine/model/counter_random.h"

namespace kvasir {
namespace {

constexpr TokenId kFirstByteToken = 3;  // of the tiny vocabulary
constexpr uint64_t kHashStart = 0xcbf29ce484222325u;
constexpr int32_t kPositionsPerModel = 1 << 20;

uint64_t Mix(uint64_t hash, TokenId id) {
  hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

TokenId Draw(uint64_t hash, const SamplingParams& sampling, int64_t position,
             int32_t stream = 0) {
  if (sampling.temperature > 0) {
    const uint64_t seed = sampling.seed + static_cast<uint64_t>(stream);
    hash ^= CounterRandom(seed, static_cast<uint64_t>(position), 0);
  }
  return kFirstByteToken + static_cast<TokenId>(Mix(hash, 0) % 256);
}

// Where id and position of a token lie: the two key planes of head_dim 2.
int32_t* PlaceOf(const BlockTableView& table, const KvLayout& layout,
                 int64_t position, int64_t plane) {
  const BlockTableView::Place place = table.At(layout, position);
  auto* keys = reinterpret_cast<int32_t*>(place.block + layout.KeyOffset(0, 0));
  return keys + plane * layout.block_tokens + place.slot;
}

}  // namespace

absl::StatusOr<std::vector<StepResult>> FakeRunner::Run(
    absl::Span<const StepRows> step) {
  if (on_step_) on_step_();
  for (const StepRows& rows : step) Write(rows);
  if (!failure_.ok()) return std::exchange(failure_, absl::OkStatus());
  if (fails_ && fails_(step)) return absl::InternalError("as ever");
  std::vector<StepResult> results(step.size());
  steps_.emplace_back();
  for (size_t i = 0; i < step.size(); ++i) {
    const auto count = static_cast<int64_t>(step[i].tokens.size());
    EXPECT_GT(count, 0) << "a sequence without rows";
    steps_.back().push_back({step[i].id, step[i].first_position, count,
                             step[i].scored_end - step[i].scored_begin});
    if (step[i].scores != nullptr) Score(step[i], results[i]);
    computed_rows_ += count;
    if (step[i].sampling == nullptr) continue;
    results[i].token = step[i].id == spoilt_ ? kLogitsNotFinite : Next(step[i]);
    if (step[i].logprobs == nullptr || results[i].token < 0) continue;
    results[i].logprobs = PositionLogprobs{TokenLogprob{results[i].token}, {}};
  }
  return results;
}

// What a token's second plane holds: its position, in this model's hand.
int32_t FakeRunner::Mark(int64_t position) const {
  return static_cast<int32_t>(position) + weights_ * kPositionsPerModel;
}

void FakeRunner::Score(const StepRows& rows, StepResult& result) {
  for (int64_t i = rows.scored_begin; i < rows.scored_end; ++i) {
    const int64_t place = rows.first_position + i + 1;
    result.scores.push_back(
        {TokenLogprob{rows.draw.tokens[place], -static_cast<float>(place)},
         {}});
  }
}

void FakeRunner::Write(const StepRows& rows) const {
  for (size_t i = 0; i < rows.tokens.size(); ++i) {
    const int64_t position = rows.first_position + static_cast<int64_t>(i);
    *PlaceOf(rows.table, layout_, position, 0) = rows.tokens[i];
    *PlaceOf(rows.table, layout_, position, 1) = Mark(position);
  }
}

TokenId FakeRunner::Next(const StepRows& rows) const {
  const int64_t end =
      rows.first_position + static_cast<int64_t>(rows.tokens.size());
  uint64_t hash = Mix(kHashStart, weights_);
  for (int64_t position = 0; position < end; ++position) {
    EXPECT_EQ(*PlaceOf(rows.table, layout_, position, 1), Mark(position))
        << "a block holds other tokens than its place in the table says";
    hash = Mix(hash, *PlaceOf(rows.table, layout_, position, 0));
  }
  return Draw(hash, *rows.sampling, end, rows.draw.stream);
}

std::vector<TokenId> FakeAnswer(std::vector<TokenId> prompt, int64_t count,
                                const SamplingParams& sampling,
                                int32_t weights) {
  uint64_t hash = Mix(kHashStart, weights);
  for (const TokenId id : prompt) hash = Mix(hash, id);
  std::vector<TokenId> answer;
  auto position = static_cast<int64_t>(prompt.size());
  while (static_cast<int64_t>(answer.size()) < count) {
    answer.push_back(Draw(hash, sampling, position++));
    hash = Mix(hash, answer.back());
  }
  return answer;
}

}  // namespace kvasir
