// What a resize costs those who are served meanwhile: clients stream without a
// pause while the cache shrinks to half its size and grows back, over and over.
//
//   resize_soak --model FILE [--seconds 120] [--period 10] [--clients 4]
//               [--cache-mib 128] [--json]
//
// Periods with a resize take turns with steady ones, which differ in nothing
// else: both have the same prompts that fill the pool again, at the same time.
// `seconds` are those of the periods of one kind. Every answer is compared with
// that of a cold run; a failed request or another answer ends the program with
// 1. Times and memory are told, not judged.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "CLI/CLI.hpp"
#include "cache/base/check.h"
#include "engine/engine.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr int64_t kAnswerTokens = 24;
constexpr int64_t kSharedTokens = 160;
constexpr int64_t kOwnTokens = 48;
constexpr int kPrompts = 16;
constexpr int64_t kFillTokens = 480;

// In which the memory of a shrink is to be back at the system.
constexpr absl::Duration kReturnTime = absl::Seconds(1);

enum class Phase : size_t { kSteady, kResizing };

struct Options {
  std::string model;
  int64_t seconds = 120;
  int64_t period = 10;
  int64_t clients = 4;
  int64_t cache_mib = 128;
  bool json = false;
};

// In milliseconds.
struct GapSummary {
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

// Gaps between tokens of all clients, by the phase in which they end and by
// whether prompts filled the pool at that time, which hides all else.
class Gaps {
 public:
  void Begin(Phase phase, bool filling) {
    const absl::MutexLock lock(&mu_);
    now_ = IndexOf(phase, filling);
  }
  void Add(double gap) {
    const absl::MutexLock lock(&mu_);
    if (now_.has_value()) gaps_[*now_].push_back(gap);
  }
  GapSummary All(Phase phase) const {
    const absl::MutexLock lock(&mu_);
    std::vector<double> gaps = gaps_[IndexOf(phase, false)];
    const std::vector<double>& filling = gaps_[IndexOf(phase, true)];
    gaps.insert(gaps.end(), filling.begin(), filling.end());
    return Summary(std::move(gaps));
  }
  GapSummary Quiet(Phase phase) const {
    const absl::MutexLock lock(&mu_);
    return Summary(gaps_[IndexOf(phase, false)]);
  }

 private:
  static size_t IndexOf(Phase phase, bool filling) {
    return 2 * static_cast<size_t>(phase) + (filling ? 1 : 0);
  }
  static GapSummary Summary(std::vector<double> gaps) {
    if (gaps.empty()) return {};
    std::sort(gaps.begin(), gaps.end());
    return {gaps[gaps.size() / 2], gaps[gaps.size() * 99 / 100], gaps.back()};
  }

  mutable absl::Mutex mu_;
  std::optional<size_t> now_;  // none before the first period
  std::array<std::vector<double>, 4> gaps_;
};

class Client final : public TokenSink {
 public:
  explicit Client(Gaps* gaps) : gaps_(gaps) {}
  bool Push(TokenEvent event) override {
    if (auto* delta = std::get_if<DeltaEvent>(&event)) {
      const absl::Time now = absl::Now();
      if (!ids.empty() && gaps_ != nullptr) {
        gaps_->Add(absl::ToDoubleMilliseconds(now - last_));
      }
      last_ = now;
      ids.insert(ids.end(), delta->token_ids.begin(), delta->token_ids.end());
    } else if (auto* end = std::get_if<FinishedEvent>(&event)) {
      status = end->status;
      done.Notify();
    }
    return true;
  }

  std::vector<TokenId> ids;
  absl::Status status;
  absl::Notification done;

 private:
  Gaps* const gaps_;
  absl::Time last_;
};

class ResizeWait final : public ResizeSink {
 public:
  bool OnProgress(const ResizeReport&) override { return true; }
  void OnEnd(const absl::Status& status, const ResizeReport& end) override {
    KV_CHECK(status.ok()) << status;
    report = end;
    ended = absl::Now();
    done.Notify();
  }
  ResizeReport report;
  absl::Time ended;
  absl::Notification done;
};

std::vector<TokenId> Prompt(uint64_t seed, int64_t shared, int64_t own) {
  TestRandom common(7), random(seed);
  std::vector<TokenId> prompt;
  while (shared-- > 0) prompt.push_back(10 + common.Below(200));
  while (own-- > 0) prompt.push_back(10 + random.Below(200));
  return prompt;
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class Soak {
 public:
  explicit Soak(const Options& options) : options_(options) {
    EngineOptions engine;
    engine.model_path = options.model;
    engine.cache_bytes = options.cache_mib << 20;
    engine.context_limit = 1024;
    auto started = Engine::Start(engine);
    KV_CHECK(started.ok()) << started.status();
    engine_ = *std::move(started);
    const CacheSnapshot cache = engine_->Stats().cache;
    blocks_ = cache.tiers.front().blocks.total();
    const int64_t fill_blocks = kFillTokens / engine.block_tokens;
    fills_per_period_ = (blocks_ / 2 + fill_blocks - 1) / fill_blocks;
    for (int i = 0; i < kPrompts; ++i) {
      KV_CHECK(engine_->FlushCache().ok());
      cold_.push_back(Ask(i, nullptr)->ids);
    }
  }

  int Run() {
    std::vector<std::thread> clients;
    for (int64_t i = 0; i < options_.clients; ++i) {
      clients.emplace_back([this, i] { Serve(static_cast<uint64_t>(i)); });
    }
    Fill();
    const int64_t pairs =
        std::max<int64_t>(options_.seconds / options_.period, 1);
    for (int64_t i = 0; i < pairs; ++i) {
      // Each kind comes first as often, whatever the machine does over time.
      const bool steady_first = i % 2 == 0;
      RunPeriod(steady_first ? Phase::kSteady : Phase::kResizing);
      RunPeriod(steady_first ? Phase::kResizing : Phase::kSteady);
    }
    stop_ = true;
    for (std::thread& client : clients) client.join();
    Print();
    return failed_ + different_ > 0 ? 1 : 0;
  }

 private:
  std::shared_ptr<Client> Ask(int prompt, Gaps* gaps) {
    return Send(Prompt(100 + prompt, kSharedTokens, kOwnTokens), kAnswerTokens,
                gaps);
  }

  std::shared_ptr<Client> Send(std::vector<TokenId> prompt, int64_t tokens,
                               Gaps* gaps) {
    Request request;
    request.id = absl::StrCat(next_++);
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.stopping.max_tokens = tokens;
    request.stopping.ignore_eos = true;
    auto client = std::make_shared<Client>(gaps);
    const absl::Status sent = engine_->Submit(std::move(request), client);
    KV_CHECK(sent.ok()) << sent;
    client->done.WaitForNotification();
    return client;
  }

  void Serve(uint64_t seed) {
    TestRandom random(seed);
    while (!stop_) {
      const int prompt = static_cast<int>(random.Below(kPrompts));
      const auto client = Ask(prompt, &gaps_);
      ++answers_;
      failed_ += !client->status.ok();
      different_ += client->status.ok() && client->ids != cold_[prompt];
    }
  }

  // Until the pool's memory is touched, as in a daemon that has run a while.
  void Fill() {
    while (engine_->Stats().cache.tiers.front().blocks.free > blocks_ / 50) {
      FillOnce();
    }
  }

  void FillOnce() {
    (void)Send(Prompt(1000 + fills_++, 0, kFillTokens), 1, nullptr);
  }

  // The cache is small for a quarter of the period. As many one-off prompts
  // come in the second half as fill what a shrink emptied.
  void RunPeriod(Phase phase) {
    const absl::Time begin = absl::Now();
    const absl::Duration period = absl::Seconds(options_.period);
    gaps_.Begin(phase, false);
    if (phase == Phase::kResizing) Shrink();
    SleepUntil(begin + period / 4);
    if (phase == Phase::kResizing) {
      Resize(blocks_)->done.WaitForNotification();
    }
    SleepUntil(begin + period / 2);
    gaps_.Begin(phase, true);
    for (int64_t i = 0; i < fills_per_period_; ++i) FillOnce();
    SleepUntil(begin + period);
  }

  static void SleepUntil(absl::Time time) {
    absl::SleepFor(time - absl::Now());
  }

  std::shared_ptr<ResizeWait> Resize(int64_t blocks) {
    auto wait = std::make_shared<ResizeWait>();
    ResizeOrder order;
    order.target_blocks = blocks;
    order.sink = wait;
    KV_CHECK(engine_->ResizeCache(std::move(order)).ok());
    return wait;
  }

  void Shrink() {
    const int64_t before = ResidentBytes();
    const absl::Time begin = absl::Now();
    const auto wait = Resize(blocks_ / 2);
    int64_t least = before;
    while (absl::Now() - begin < kReturnTime) {
      absl::SleepFor(absl::Milliseconds(20));
      least = std::min(least, ResidentBytes());
    }
    wait->done.WaitForNotification();
    const int64_t asked = (blocks_ - blocks_ / 2) * wait->report.block_bytes;
    slowest_shrink_ms_ = std::max(
        slowest_shrink_ms_, absl::ToDoubleMilliseconds(wait->ended - begin));
    least_returned_ =
        std::min(least_returned_, static_cast<double>(before - least) /
                                      static_cast<double>(asked));
    ++shrinks_;
  }

  static double Ratio(const GapSummary& steady, const GapSummary& resizing) {
    return steady.p99 > 0 ? resizing.p99 / steady.p99 : 0;
  }
  static std::string Json(const GapSummary& gaps) {
    return absl::StrFormat("{\"p50\": %.2f, \"p99\": %.2f, \"max\": %.2f}",
                           gaps.p50, gaps.p99, gaps.max);
  }
  static std::string Row(const char* name, const GapSummary& gaps) {
    return absl::StrFormat("%-24s %8.2f %8.2f %8.2f\n", name, gaps.p50,
                           gaps.p99, gaps.max);
  }

  void Print() const {
    const GapSummary steady = gaps_.All(Phase::kSteady);
    const GapSummary resizing = gaps_.All(Phase::kResizing);
    const GapSummary steady_quiet = gaps_.Quiet(Phase::kSteady);
    const GapSummary resizing_quiet = gaps_.Quiet(Phase::kResizing);
    if (options_.json) {
      std::cout << absl::StrFormat(
          "{\"answers\": %d, \"failed\": %d, \"different\": %d, \"shrinks\": "
          "%d, \"least_returned\": %.4f, \"slowest_shrink_ms\": %.1f,\n"
          " \"gap_ms_steady\": %s,\n \"gap_ms_resizing\": %s,\n"
          " \"gap_p99_ratio\": %.3f,\n"
          " \"quiet_gap_ms_steady\": %s,\n \"quiet_gap_ms_resizing\": %s,\n"
          " \"quiet_gap_p99_ratio\": %.3f}\n",
          answers_.load(), failed_.load(), different_.load(), shrinks_,
          least_returned_, slowest_shrink_ms_, Json(steady), Json(resizing),
          Ratio(steady, resizing), Json(steady_quiet), Json(resizing_quiet),
          Ratio(steady_quiet, resizing_quiet));
      return;
    }
    std::cout << absl::StrFormat(
        "answers      %d, %d failed, %d unlike the cold run\n"
        "shrinks      %d to half, slowest %.1f ms\n"
        "memory back  %.1f %% of what was asked within %s, at the least\n\n"
        "token gap, ms                 p50      p99      max\n"
        "%s%sp99 ratio %34.2f\n"
        "while nobody fills the pool\n%s%sp99 ratio %34.2f\n",
        answers_.load(), failed_.load(), different_.load(), shrinks_,
        slowest_shrink_ms_, 100 * least_returned_,
        absl::FormatDuration(kReturnTime), Row("steady", steady),
        Row("resizing", resizing), Ratio(steady, resizing),
        Row("steady", steady_quiet), Row("resizing", resizing_quiet),
        Ratio(steady_quiet, resizing_quiet));
  }

  const Options options_;
  std::unique_ptr<Engine> engine_;
  int64_t blocks_ = 0;
  int64_t fills_per_period_ = 0;
  std::vector<std::vector<TokenId>> cold_;  // answers, by prompt
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> answers_{0}, failed_{0}, different_{0};
  Gaps gaps_;
  uint64_t fills_ = 0;
  int64_t shrinks_ = 0;
  double least_returned_ = 1;
  double slowest_shrink_ms_ = 0;
};

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  kvasir::Options options;
  CLI::App app("Resizes the cache under load and compares every answer");
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--seconds", options.seconds)->check(CLI::Range(1, 86400));
  app.add_option("--period", options.period)->check(CLI::Range(1, 3600));
  app.add_option("--clients", options.clients)->check(CLI::Range(1, 64));
  app.add_option("--cache-mib", options.cache_mib)
      ->check(CLI::Range(16, 65536));
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  return kvasir::Soak(options).Run();
}
