#ifndef KVASIR_SERVER_WRITE_QUEUE_H_
#define KVASIR_SERVER_WRITE_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"

namespace kvasir {

// Bytes that wait for one client, beside the messages that server.stream_queue
// counts: few large messages are as much memory as many small ones.
inline constexpr int64_t kMaxStreamQueueBytes = int64_t{1} << 20;

// A slow reader is given so many times server.slow_reader_timeout: for all the
// time that it has kept its request waiting, and again for what is left once
// the request has ended.
inline constexpr int kSlowReaderPatience = 10;

// Messages that are made when it is their turn to be written. What they are
// made of is bounded by whoever has them.
class MessageSource {
 public:
  virtual ~MessageSource() = default;

  // The next one. The last one of all if it leaves the source done.
  virtual grpc::ByteBuffer Next() = 0;
  virtual bool done() const = 0;
};

// What waits to be written to one client, and how long the client has had it
// wait. At its high water the queue is full, and nothing more should be made
// for it; it takes what comes all the same, the last words of a request for
// one. It is full until it has sunk to half of that, so that a reader that is
// a little too slow does not stop and start its request with every message.
//
// Pure but for what it holds: `now` is steady time. One thread at a time.
class WriteQueue {
 public:
  struct Limits {
    int64_t messages = 1024;
    int64_t bytes = kMaxStreamQueueBytes;
    absl::Duration timeout = absl::Seconds(30);
  };

  explicit WriteQueue(const Limits& limits) : limits_(limits) {}

  void Push(grpc::ByteBuffer message, absl::Duration now);
  // Not done; as one message without bytes.
  void Push(std::unique_ptr<MessageSource> source, absl::Duration now);

  // The oldest message; there must be one.
  grpc::ByteBuffer Pop(absl::Duration now);

  // A write has come to its end: the client reads.
  void NoteProgress(absl::Duration now) { progress_ = now; }

  // The request has ended; what is here is all.
  void NoteLast(absl::Duration now);

  // Drops everything.
  void Clear(absl::Duration now);

  bool empty() const { return messages_.empty(); }
  int64_t size() const { return static_cast<int64_t>(messages_.size()); }
  bool full() const { return full_; }

  // How long the client may still take: zero if the call should be given up,
  // endless while it keeps nothing waiting. It runs out
  //   - the timeout after the queue was full, or after the last write since;
  //   - kSlowReaderPatience timeouts of being full, all times together;
  //   - as many after the last message, if that is not written yet.
  absl::Duration TimeLeft(absl::Duration now) const;

 private:
  struct Entry {
    grpc::ByteBuffer message;
    std::unique_ptr<MessageSource> source;  // instead, if not null
  };

  void Update(absl::Duration now);

  const Limits limits_;
  std::deque<Entry> messages_;
  int64_t bytes_ = 0;
  bool full_ = false;
  absl::Duration full_since_;                          // while it is
  absl::Duration full_before_ = absl::ZeroDuration();  // times that are over
  absl::Duration progress_ = -absl::InfiniteDuration();
  absl::Duration last_ = absl::InfiniteDuration();  // when NoteLast() came
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_WRITE_QUEUE_H_
