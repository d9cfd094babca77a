#include "cache/reservation.h"

#include <utility>

#include "cache/base/check.h"
#include "cache/cache_core.h"
#include "cache/reservation_state.h"

namespace kvasir {

Reservation::Reservation(std::unique_ptr<ReservationState> state)
    : state_(std::move(state)) {}

Reservation::Reservation(Reservation&& other) noexcept = default;

Reservation::~Reservation() {
  if (state_ == nullptr) return;
  KV_DCHECK(state_->core->OnEngineThread());
  state_->core->Drop(*state_);
}

BlockTableView Reservation::Table(size_t index) const {
  KV_CHECK(state_ != nullptr && index < state_->growths.size())
      << "growth " << index;
  return state_->core->View(*state_->growths[index].lease, true);
}

void Reservation::Commit() && {
  KV_CHECK(state_ != nullptr) << "committed or moved from";
  KV_DCHECK(state_->core->OnEngineThread());
  state_->core->Commit(*state_);
  state_.reset();
}

}  // namespace kvasir
