#include "engine/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/base/check.h"

namespace kvasir {
namespace {

bool Decodes(const RunningView& sequence) {
  return sequence.known_tokens - sequence.computed_tokens == 1;
}

bool TakesPart(const RunningView& sequence) {
  return sequence.in_turn && !sequence.rests;
}

// Rows for each running sequence as far as the budget goes, blocks left aside:
// every decode first, then prefill in order of arrival.
std::vector<int64_t> ShareBudget(const SchedulerView& view,
                                 const Scheduler::Limits& limits) {
  std::vector<int64_t> rows(view.running.size(), 0);
  int64_t budget = limits.token_budget;
  for (size_t i = 0; i < rows.size() && budget > 0; ++i) {
    if (!TakesPart(view.running[i]) || !Decodes(view.running[i])) continue;
    rows[i] = 1;
    --budget;
  }
  for (size_t i = 0; i < rows.size() && budget > 0; ++i) {
    const RunningView& sequence = view.running[i];
    if (!TakesPart(sequence) || Decodes(sequence) ||
        sequence.waits_for_prefix) {
      continue;
    }
    rows[i] = std::min({sequence.known_tokens - sequence.computed_tokens,
                        limits.prefill_chunk, budget});
    if (sequence.most_rows > 0) rows[i] = std::min(rows[i], sequence.most_rows);
    budget -= rows[i];
  }
  return rows;
}

}  // namespace

Scheduler::Scheduler(const Limits& limits) : limits_(limits) {
  KV_CHECK(limits.token_budget > 0 && limits.prefill_chunk > 0 &&
           limits.max_sequences > 0)
      << "token_budget " << limits.token_budget << ", prefill_chunk "
      << limits.prefill_chunk << ", max_sequences " << limits.max_sequences;
  limits_.max_sequences = static_cast<int32_t>(
      std::min<int64_t>(limits.max_sequences, limits.token_budget));
}

int64_t Scheduler::SparePieces(const SchedulerView& view) const {
  const CapacityView& capacity = view.capacity;
  int64_t left = capacity.available_pieces();
  for (const RunningView& sequence : view.running) {
    left -= capacity.PiecesFor(sequence.known_tokens) +
            capacity.pieces_per_block - sequence.piece_count;
  }
  return left;
}

int64_t Scheduler::CountAdmissible(const SchedulerView& view) const {
  const CapacityView& capacity = view.capacity;
  const int64_t block = capacity.pieces_per_block;
  int64_t left = SparePieces(view);
  int64_t places =
      limits_.max_sequences - static_cast<int64_t>(view.running.size());
  int64_t count = 0;
  for (const WaitingView& sequence : view.waiting) {
    if (places-- <= 0) break;
    const int64_t known = capacity.PiecesFor(sequence.known_tokens) -
                          sequence.shared_blocks * block;
    // Alone, a sequence needs no room beside what it can ever fill.
    const bool alone = view.running.empty() && count == 0;
    if (known + (alone ? 0 : block) > left) break;
    left -= known + block;
    ++count;
  }
  return count;
}

StepPlan Scheduler::Plan(const SchedulerView& view) const {
  const CapacityView& capacity = view.capacity;
  const std::vector<int64_t> shares = ShareBudget(view, limits_);
  int64_t left = capacity.available_pieces();
  StepPlan plan;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0) continue;
    const RunningView& sequence = view.running[i];
    const int64_t room =
        (sequence.piece_count + left) * capacity.piece_tokens() -
        sequence.computed_tokens;
    const int64_t rows = std::min(shares[i], room);
    if (rows > 0) {
      left -= std::max<int64_t>(
          capacity.PiecesFor(sequence.computed_tokens + rows) -
              sequence.piece_count,
          0);
      plan.rows.push_back(
          {sequence.id, rows,
           sequence.computed_tokens + rows == sequence.known_tokens});
      plan.total_tokens += rows;
      continue;
    }
    // Older sequences have what they need. Memory comes from the youngest, be
    // it this very one; a prefill that is the youngest itself just waits, as
    // long as there is other work.
    const bool youngest = i + 1 == shares.size();
    if (youngest && !Decodes(sequence) && !plan.rows.empty()) break;
    return {.preempt = view.running.back().id, .rows = {}, .total_tokens = 0};
  }
  return plan;
}

}  // namespace kvasir
