#include "engine/step_compute.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/kv_cache.h"
#include "engine/sequence.h"
#include "engine/sequence_roster.h"
#include "engine/served_version.h"

namespace kvasir {
namespace {

absl::Span<const TokenId> TokensOf(const PlannedRows& rows,
                                   const Sequence& sequence) {
  return sequence.known_tokens().subspan(
      static_cast<size_t>(sequence.computed_count()),
      static_cast<size_t>(rows.token_count));
}

StepRows RowsOf(const PlannedRows& planned, const Sequence& sequence,
                const BlockTableView& table) {
  const OutputWish& wish = sequence.request().output;
  const Sequence::RowRange scored =
      sequence.RowsToScore(sequence.computed_count(), planned.token_count);
  StepRows rows{.id = sequence.id(),
                .tokens = TokensOf(planned, sequence),
                .first_position = sequence.computed_count(),
                .table = table,
                .draw = {.tokens = sequence.known_tokens(),
                         .prompt_tokens = sequence.usage().prompt_tokens,
                         .withheld = sequence.withheld(),
                         .stream = sequence.index()}};
  if (planned.wants_logits) {
    rows.sampling = &sequence.sampling();
    if (wish.logprobs.has_value()) rows.logprobs = &*wish.logprobs;
  }
  if (scored.begin < scored.end) {
    rows.scores = &*wish.prompt_logprobs;
    rows.scored_begin = scored.begin;
    rows.scored_end = scored.end;
  }
  return rows;
}

}  // namespace

int64_t StepWork::warm_tokens() const {
  int64_t count = 0;
  for (const WarmRows& rows : warm) {
    count += static_cast<int64_t>(rows.tokens.size());
  }
  return count;
}

std::vector<Sequence*> SequencesOf(const StepPlan& plan,
                                   const SequenceRoster& roster) {
  std::vector<Sequence*> sequences;
  auto next = roster.running().begin();
  for (const PlannedRows& rows : plan.rows) {
    while ((*next)->id() != rows.id) ++next;
    sequences.push_back(next->get());
  }
  return sequences;
}

StepPhase PhaseOf(const StepWork& work, absl::Span<Sequence* const> sequences) {
  size_t prefills = work.warm.size();
  for (const Sequence* sequence : sequences) prefills += sequence->prefills();
  if (prefills == 0) return StepPhase::kDecode;
  return prefills == sequences.size() + work.warm.size() ? StepPhase::kPrefill
                                                         : StepPhase::kMixed;
}

absl::StatusOr<std::vector<StepResult>> ComputeStep(
    const StepWork& work, absl::Span<Sequence* const> sequences,
    const ServedVersion& version, KvCache& cache) {
  std::vector<LeaseGrowth> growths;
  for (size_t i = 0; i < sequences.size(); ++i) {
    growths.push_back(
        {&sequences[i]->lease(), TokensOf(work.plan.rows[i], *sequences[i])});
  }
  for (const WarmRows& rows : work.warm) {
    growths.push_back({rows.lease, rows.tokens});
  }
  Reservation reservation = cache.Reserve(growths);
  std::vector<StepRows> step;
  for (size_t i = 0; i < sequences.size(); ++i) {
    step.push_back(
        RowsOf(work.plan.rows[i], *sequences[i], reservation.Table(i)));
  }
  for (const WarmRows& rows : work.warm) {
    step.push_back({.id = {},
                    .tokens = rows.tokens,
                    .first_position = rows.first_position,
                    .table = reservation.Table(step.size())});
  }
  auto results = version.runner().Run(step);
  if (results.ok()) std::move(reservation).Commit();
  return results;
}

}  // namespace kvasir
