#include "cache/lease.h"

#include <utility>

#include "cache/base/check.h"
#include "cache/cache_core.h"
#include "cache/lease_state.h"

namespace kvasir {
namespace {

void End(LeaseState& lease) {
  KV_DCHECK(lease.core->OnEngineThread());
  lease.core->EndLease(lease);
}

}  // namespace

Lease::Lease() = default;

Lease::Lease(std::unique_ptr<LeaseState> state) : state_(std::move(state)) {}

Lease::Lease(Lease&& other) noexcept = default;

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    if (held()) End(*state_);
    state_ = std::move(other.state_);
  }
  return *this;
}

Lease::~Lease() {
  if (held()) End(*state_);
}

VersionId Lease::version() const {
  KV_CHECK(held());
  return state_->version;
}

int64_t Lease::token_count() const {
  KV_CHECK(held());
  return state_->token_count;
}

int64_t Lease::cached_token_count() const {
  KV_CHECK(held());
  return state_->cached_token_count;
}

int64_t Lease::block_count() const {
  KV_CHECK(held());
  return state_->core->layout().BlocksFor(state_->token_count);
}

int64_t Lease::piece_count() const {
  KV_CHECK(held());
  return state_->core->layout().PiecesFor(state_->token_count);
}

BlockTableView Lease::Table() const {
  KV_CHECK(held());
  return state_->core->View(*state_, false);
}

}  // namespace kvasir
