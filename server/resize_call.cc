#include "server/resize_call.h"

#include <utility>

#include "server/request_parse.h"
#include "server/resize_codec.h"

namespace kvasir {
namespace {

// What the tier's size is when the order is given.
int64_t BlocksNow(const GenerationBackend& backend) {
  const CacheSnapshot cache = backend.Stats().cache;
  return cache.tiers.empty() ? 0 : cache.tiers.front().blocks.total();
}

// The engine's end of the call.
class ResizeCall final : public ResizeSink {
 public:
  ResizeCall(std::shared_ptr<ProgressReactor> reactor, int64_t start_blocks,
             bool dry_run, std::function<void(int64_t)> on_resized)
      : reactor_(std::move(reactor)),
        start_blocks_(start_blocks),
        dry_run_(dry_run),
        on_resized_(std::move(on_resized)) {}

  bool OnProgress(const ResizeReport& report) override {
    return reactor_->Report([&] {
      return ToBytes(Encode(report, report.waits ? "waiting" : "resizing"));
    });
  }

  void OnEnd(const absl::Status& status, const ResizeReport& report) override {
    if (!status.ok()) return reactor_->End(status);
    if (!dry_run_) on_resized_(report.block_count * report.block_bytes);
    const v1::ResizeCacheResponse last = Encode(report, "done");
    reactor_->End(status, &last);
  }

 private:
  v1::ResizeCacheResponse Encode(const ResizeReport& report,
                                 const char* phase) const {
    return EncodeResize(report, start_blocks_, dry_run_ ? "dry run" : phase);
  }

  const std::shared_ptr<ProgressReactor> reactor_;
  const int64_t start_blocks_;
  const bool dry_run_;
  const std::function<void(int64_t)> on_resized_;
};

}  // namespace

absl::Status StartResize(ResizeOrder order, GenerationBackend& backend,
                         std::function<void(int64_t)> on_resized,
                         std::shared_ptr<ProgressReactor> reactor) {
  order.sink =
      std::make_shared<ResizeCall>(std::move(reactor), BlocksNow(backend),
                                   order.dry_run, std::move(on_resized));
  return backend.ResizeCache(std::move(order));
}

}  // namespace kvasir
