#include "server/start_warmup.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"

#include "engine/warm_order.h"
#include "server/log.h"
#include "server/version_choice.h"
#include "server/warm_codec.h"

namespace kvasir {
namespace {

// Lines of the file that one line of the log names.
constexpr size_t kMaxNamedLines = 20;

}  // namespace

// What the engine has told, and what it is told.
class StartWarmup::Sink final : public WarmSink {
 public:
  Sink(size_t total, std::function<void()> on_end)
      : total_(total), on_end_(std::move(on_end)) {}

  bool OnProgress(const WarmReport& report) override {
    absl::MutexLock lock(&mu_);
    report_ = report;
    return !called_off_;
  }

  void OnEnd(const absl::Status& status,
             absl::Span<const WarmedPrefix> prefixes) override {
    {
      absl::MutexLock lock(&mu_);
      status_ = status;
      prefixes_.assign(prefixes.begin(), prefixes.end());
    }
    on_end_();
  }

  void CallOff() {
    absl::MutexLock lock(&mu_);
    called_off_ = true;
  }
  bool called_off() const {
    absl::MutexLock lock(&mu_);
    return called_off_;
  }
  // In the order of the engine's prefixes, the line of each.
  void SetLines(std::vector<int> lines, size_t refused) {
    absl::MutexLock lock(&mu_);
    lines_ = std::move(lines);
    refused_ = refused;
  }
  bool ended() const {
    absl::MutexLock lock(&mu_);
    return status_.has_value();
  }

  // Both copy what they tell: the engine waits for the lock, and a log can be
  // slow.
  void LogEnd() const ABSL_LOCKS_EXCLUDED(mu_) {
    std::vector<int> missing;
    int64_t tokens = 0;
    size_t prefixes = 0;
    size_t refused = 0;
    absl::Status status;
    {
      absl::MutexLock lock(&mu_);
      for (size_t i = 0; i < lines_.size(); ++i) {
        const bool known = i < prefixes_.size();
        if (known) tokens += prefixes_[i].resident_tokens;
        if (known && prefixes_[i].status.ok()) continue;
        if (missing.size() < kMaxNamedLines) missing.push_back(lines_[i]);
      }
      prefixes = lines_.size();
      refused = refused_;
      status = *status_;
    }
    if (status.ok() && refused == 0) {
      return Log(LogLevel::kInfo, "the cache is warm",
                 {{"prefixes", absl::StrCat(prefixes)},
                  {"resident_tokens", absl::StrCat(tokens)}});
    }
    Log(LogLevel::kWarning, "the cache is not as warm as it should be",
        {{"prefixes", absl::StrCat(prefixes + refused)},
         {"resident_tokens", absl::StrCat(tokens)},
         {"refused", absl::StrCat(refused)},
         {"missing_lines", absl::StrJoin(missing, ",")},
         {"reason", std::string(status.message())}});
  }

  void LogDeadline(absl::Duration deadline) const ABSL_LOCKS_EXCLUDED(mu_) {
    WarmReport report;
    {
      absl::MutexLock lock(&mu_);
      report = report_;
    }
    Log(LogLevel::kWarning,
        "the warm-up is not done by its deadline and goes on",
        {{"deadline", absl::FormatDuration(deadline)},
         {"done", absl::StrCat(report.done_count)},
         {"missing",
          absl::StrCat(total_ - static_cast<size_t>(report.done_count))},
         {"computed_tokens", absl::StrCat(report.computed_tokens)}});
  }

 private:
  const size_t total_;  // prompts of the file
  const std::function<void()> on_end_;
  mutable absl::Mutex mu_;
  bool called_off_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<int> lines_ ABSL_GUARDED_BY(mu_);
  size_t refused_ ABSL_GUARDED_BY(mu_) = 0;
  WarmReport report_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mu_);
  std::vector<WarmedPrefix> prefixes_ ABSL_GUARDED_BY(mu_);
};

StartWarmup::StartWarmup(const WarmFile* file, std::function<void()> on_end)
    : file_(file),
      sink_(std::make_shared<Sink>(file->lines.size(), std::move(on_end))) {}

StartWarmup::~StartWarmup() {
  CallOff();
  if (thread_.joinable()) thread_.join();
}

void StartWarmup::Begin(GenerationBackend& backend) {
  thread_ = std::thread([this, &backend] { HandOver(backend); });
}

void StartWarmup::HandOver(GenerationBackend& backend) {
  WarmOrder order;
  order.version = FirstVersion(backend);
  order.sink = sink_;
  const ServedModel model = ModelOf(*order.version);
  std::vector<int> lines;
  int64_t tokens = 0;
  for (int i = 0; i < file_->request.prompts_size(); ++i) {
    if (sink_->called_off()) break;
    const int line = file_->lines[static_cast<size_t>(i)];
    absl::StatusOr<WarmPrefix> prefix =
        DecodeWarmPrompt(file_->request, i, model);
    absl::Status fits = prefix.status();
    if (fits.ok()) {
      const auto count = static_cast<int64_t>(prefix->tokens.size());
      fits = CheckWarmTokens(tokens + count);
      if (fits.ok()) tokens += count;
    }
    if (fits.ok()) {
      order.prefixes.push_back(*std::move(prefix));
      lines.push_back(line);
      continue;
    }
    Log(LogLevel::kWarning, "a prefix cannot be warmed",
        {{"line", absl::StrCat(line)},
         {"reason", std::string(fits.message())}});
  }
  const size_t refused = file_->lines.size() - lines.size();
  sink_->SetLines(std::move(lines), refused);
  absl::Status handed;
  if (sink_->called_off()) {
    handed = absl::CancelledError("the warm-up was called off");
  } else if (order.prefixes.empty()) {
    handed = absl::InvalidArgumentError("no prefix can be warmed");
  } else {
    handed = backend.WarmCache(std::move(order));
  }
  if (!handed.ok()) sink_->OnEnd(handed, {});
}

void StartWarmup::CallOff() { sink_->CallOff(); }

bool StartWarmup::ended() const { return sink_->ended(); }

void StartWarmup::LogEnd() const { sink_->LogEnd(); }

void StartWarmup::LogDeadline(absl::Duration deadline) const {
  sink_->LogDeadline(deadline);
}

}  // namespace kvasir
