#include "engine/inbox.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "cache/base/check.h"

namespace kvasir {

Inbox::Inbox(int32_t limit) : limit_(limit) {
  KV_CHECK(limit > 0) << "inbox_limit " << limit;
}

absl::Status Inbox::Submit(Request request, std::shared_ptr<TokenSink> sink,
                           absl::Duration now) {
  auto cancel = std::make_shared<CancelFlag>();
  absl::MutexLock lock(&mu_);
  if (!closed_.ok()) {
    ++rejections_.draining;
    return closed_;
  }
  if (flights_.contains(request.id)) {
    ++rejections_.invalid;
    return absl::AlreadyExistsError(
        absl::StrCat("request id \"", request.id, "\" is in flight already"));
  }
  if (places_taken_ >= limit_) {
    ++rejections_.inbox_full;
    return absl::ResourceExhaustedError(
        absl::StrCat("inbox_limit: ", places_taken_,
                     " requests wait for their turn, at most ", limit_));
  }
  flights_.emplace(request.id, Flight{cancel});
  ++places_taken_;
  ++in_flight_;
  mail_.submissions.push_back(
      {std::move(request), std::move(sink), std::move(cancel), now});
  news_ = true;
  return absl::OkStatus();
}

absl::Status Inbox::Post(EngineCommand command) {
  absl::MutexLock lock(&mu_);
  if (mail_.stop) return absl::UnavailableError("the engine is shutting down");
  mail_.commands.push_back(std::move(command));
  news_ = true;
  return absl::OkStatus();
}

absl::Status Inbox::Post(ResizeOrder order) {
  absl::MutexLock lock(&mu_);
  if (mail_.stop) return absl::UnavailableError("the engine is shutting down");
  mail_.resizes.push_back(std::move(order));
  news_ = true;
  return absl::OkStatus();
}

absl::Status Inbox::Post(WarmOrder order) {
  absl::MutexLock lock(&mu_);
  if (!closed_.ok()) return closed_;
  if (mail_.warm_orders.size() >= kMaxWarmOrders) {
    return absl::ResourceExhaustedError(
        absl::StrCat("warm orders: ", mail_.warm_orders.size(),
                     " wait for the engine, at most ", kMaxWarmOrders));
  }
  mail_.warm_orders.push_back(std::move(order));
  news_ = true;
  return absl::OkStatus();
}

bool Inbox::Cancel(std::string_view id, CancelSource source,
                   std::string_view reason) {
  absl::MutexLock lock(&mu_);
  const auto it = flights_.find(std::string(id));
  if (it == flights_.end()) return false;
  it->second.cancel->Request(source, std::string(reason));
  news_ = true;
  return true;
}

void Inbox::CancelAll(CancelSource source, std::string_view reason) {
  absl::MutexLock lock(&mu_);
  for (auto& [id, flight] : flights_) {
    flight.cancel->Request(source, std::string(reason));
  }
  news_ = true;
}

void Inbox::Wake() {
  absl::MutexLock lock(&mu_);
  news_ = true;
}

void Inbox::Close(absl::Status status) {
  KV_CHECK(!status.ok());
  absl::MutexLock lock(&mu_);
  closed_ = std::move(status);
  news_ = true;
}

void Inbox::Stop() {
  Close(absl::UnavailableError("the engine is shutting down"));
  absl::MutexLock lock(&mu_);
  mail_.stop = true;
  news_ = true;
}

bool Inbox::WaitIdle(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(this, &Inbox::Idle), timeout);
}

void Inbox::CountInvalid() {
  absl::MutexLock lock(&mu_);
  ++rejections_.invalid;
}

void Inbox::CountNeverFits() {
  absl::MutexLock lock(&mu_);
  ++rejections_.never_fits;
}

Rejections Inbox::rejections() const {
  absl::MutexLock lock(&mu_);
  return rejections_;
}

int64_t Inbox::in_flight() const {
  absl::MutexLock lock(&mu_);
  return in_flight_;
}

int64_t Inbox::untaken() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int64_t>(mail_.submissions.size());
}

Mail Inbox::Take() {
  absl::MutexLock lock(&mu_);
  news_ = false;
  Mail taken = std::move(mail_);
  mail_ = {};
  mail_.stop = taken.stop;  // stays true: Post() asks
  taken.closed = closed_;
  return taken;
}

bool Inbox::WaitForMail(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(this, &Inbox::HasMail), timeout);
}

void Inbox::Admit(std::string_view id) {
  absl::MutexLock lock(&mu_);
  const auto it = flights_.find(std::string(id));
  KV_CHECK(it != flights_.end()) << "admitted request is not in flight";
  if (it->second.admitted) return;
  it->second.admitted = true;
  --places_taken_;
}

void Inbox::Retire(std::string_view id) {
  absl::MutexLock lock(&mu_);
  const auto it = flights_.find(std::string(id));
  KV_CHECK(it != flights_.end()) << "retired request is not in flight";
  if (!it->second.admitted) --places_taken_;
  flights_.erase(it);
}

void Inbox::NoteDelivered(int64_t count) {
  absl::MutexLock lock(&mu_);
  in_flight_ -= count;
  KV_CHECK(in_flight_ >= static_cast<int64_t>(flights_.size()));
}

}  // namespace kvasir
