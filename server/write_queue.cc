#include "server/write_queue.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

void WriteQueue::Push(grpc::ByteBuffer message, absl::Duration now) {
  bytes_ += static_cast<int64_t>(message.Length());
  messages_.push_back({std::move(message), nullptr});
  Update(now);
}

void WriteQueue::Push(std::unique_ptr<MessageSource> source,
                      absl::Duration now) {
  KV_CHECK(!source->done());
  messages_.push_back({grpc::ByteBuffer(), std::move(source)});
  Update(now);
}

grpc::ByteBuffer WriteQueue::Pop(absl::Duration now) {
  KV_CHECK(!messages_.empty());
  Entry& first = messages_.front();
  if (first.source != nullptr) {
    grpc::ByteBuffer made = first.source->Next();
    if (first.source->done()) messages_.pop_front();
    Update(now);
    return made;
  }
  grpc::ByteBuffer message = std::move(first.message);
  messages_.pop_front();
  bytes_ -= static_cast<int64_t>(message.Length());
  Update(now);
  return message;
}

void WriteQueue::NoteLast(absl::Duration now) {
  last_ = now;
  Update(now);
}

void WriteQueue::Clear(absl::Duration now) {
  messages_.clear();
  bytes_ = 0;
  Update(now);
}

void WriteQueue::Update(absl::Duration now) {
  const bool high = size() >= limits_.messages || bytes_ >= limits_.bytes;
  const bool low =
      size() <= limits_.messages / 2 && bytes_ <= limits_.bytes / 2;
  if (!full_ && high) {
    full_ = true;
    full_since_ = now;
  } else if (full_ && low) {
    full_ = false;
    full_before_ += now - full_since_;
  }
}

absl::Duration WriteQueue::TimeLeft(absl::Duration now) const {
  const absl::Duration patience = kSlowReaderPatience * limits_.timeout;
  absl::Duration left = absl::InfiniteDuration();
  if (last_ != absl::InfiniteDuration()) {
    // Nothing is kept waiting any more but what is here.
    left = last_ + patience - now;
  } else if (full_) {
    left = std::min(std::max(full_since_, progress_) + limits_.timeout - now,
                    patience - full_before_ - (now - full_since_));
  }
  return std::max(left, absl::ZeroDuration());
}

}  // namespace kvasir
