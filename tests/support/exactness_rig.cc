#include "tests/support/exactness_rig.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "cache/base/check.h"
#include "cache/memory/host_memory.h"
#include "engine/version_loader.h"

namespace kvasir {
namespace {

// What resizes may ask for, and how much a slice of one does: little, so that
// steps come in between.
constexpr int64_t kMostBlocks = 256;
constexpr int64_t kSliceBlocks = 64;

LoadedModel MustLoad(const EngineOptions& options) {
  absl::StatusOr<LoadedModel> model = LoadModel(options);
  KV_CHECK(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<KvCache> MustMakeCache(const EngineOptions& options,
                                       const KvLayout& layout) {
  auto cache = KvCache::Create(
      {.layout = layout,
       .capacity_blocks = options.cache_blocks,
       .address_space_blocks = std::max(kMostBlocks, options.cache_blocks),
       .prefix_caching = options.prefix_caching,
       .resize_slice_bytes = kSliceBlocks * layout.BlockBytes()},
      MakeHostMemory(), MakeLruPolicy());
  KV_CHECK(cache.ok()) << cache.status();
  return *std::move(cache);
}

}  // namespace

bool SameBits(const ExactnessAnswer& a, const ExactnessAnswer& b) {
  if (a.ids != b.ids || a.logits.size() != b.logits.size()) return false;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    if (a.logits[i].size() != b.logits[i].size() ||
        std::memcmp(a.logits[i].data(), b.logits[i].data(),
                    a.logits[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

ExactnessRig::ExactnessRig(const EngineOptions& options)
    : model_(std::make_shared<const LoadedModel>(MustLoad(options))),
      cache_(MustMakeCache(options, model_->layout)),
      promise_(options.cache_blocks * options.block_tokens),
      versions_(cache_.get(), &directory_) {
  ServedVersion::Parts parts =
      MakeVersionParts(options, model_, model_->info.name, "", &promise_);
  parts.runner = std::make_shared<ModelRunner>(
      model_->transformer.get(),
      ModelRunner::Options{.layout = model_->layout,
                           .sampleable_count = model_->token_limit,
                           .observer = [this](SequenceId id, int64_t,
                                              absl::Span<const float> logits) {
                             logits_[id.value()].emplace_back(logits.begin(),
                                                              logits.end());
                           }});
  VersionInfo info = InfoOf(parts, options.model_path, 0);
  KV_CHECK(versions_.Add(std::move(parts), std::move(info)).ok());
  loop_ = std::make_unique<EngineLoop>(
      EngineLoop::Parts{.cache = cache_.get(),
                        .versions = &versions_,
                        .inbox = &inbox_,
                        .board = &board_,
                        .clock = &clock_,
                        .promise = &promise_},
      EngineLoop::Settings{.limits = {.token_budget = options.token_budget,
                                      .prefill_chunk = options.prefill_chunk,
                                      .max_sequences = options.max_sequences},
                           .prefix_caching = options.prefix_caching});
}

std::vector<ExactnessAnswer> ExactnessRig::Run(
    const std::vector<ExactnessCase>& cases,
    const std::vector<int64_t>& arrivals) {
  std::vector<std::shared_ptr<RecordingSink>> sinks(cases.size());
  std::vector<int64_t> sequence(cases.size());
  size_t arrived = 0;
  for (int64_t turn = 0; arrived < cases.size() || inbox_.in_flight() > 0;
       ++turn) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const bool due = arrivals.empty() || arrivals[i] <= turn;
      if (sinks[i] != nullptr || !due) continue;
      sinks[i] = std::make_shared<RecordingSink>();
      sequence[i] = submitted_++;
      ++arrived;
      Request request;
      request.id = absl::StrCat(sequence[i]);
      request.prompt = cases[i].prompt;
      request.sampling = cases[i].sampling;
      request.stopping.max_tokens = cases[i].max_tokens;
      request.stopping.ignore_eos = true;
      request.version = *directory_.Resolve("", "");
      KV_CHECK(inbox_.Submit(std::move(request), sinks[i], clock_.Now()).ok());
    }
    if (!sizes_.empty() && resize_ == nullptr) BeginResize();
    loop_->Turn();
  }
  std::vector<ExactnessAnswer> answers(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(sinks[i]->ok());
    answers[i] = {sinks[i]->ids, std::move(logits_[sequence[i]]),
                  sinks[i]->finished->usage};
    EXPECT_EQ(answers[i].logits.size(), answers[i].ids.size());
  }
  logits_.clear();
  return answers;
}

std::shared_ptr<RecordingWarm> ExactnessRig::BeginWarm(
    std::vector<WarmPrefix> prefixes, int32_t parallelism) {
  auto sink = std::make_shared<RecordingWarm>();
  KV_CHECK(inbox_
               .Post(WarmOrder{.version = *directory_.Resolve("", ""),
                               .prefixes = std::move(prefixes),
                               .parallelism = parallelism,
                               .sink = sink})
               .ok());
  return sink;
}

void ExactnessRig::Warm(std::vector<WarmPrefix> prefixes, int32_t parallelism) {
  const auto sink = BeginWarm(std::move(prefixes), parallelism);
  while (loop_->Turn()) {
  }
  EXPECT_TRUE(sink->ok()) << sink->status.value_or(absl::OkStatus());
}

void ExactnessRig::BeginResize() {
  class Sink final : public ResizeSink {
   public:
    Sink(std::shared_ptr<ResizeSink>* slot, int64_t* done)
        : slot_(slot), done_(done) {}
    bool OnProgress(const ResizeReport& report) override { return true; }
    void OnEnd(const absl::Status& status,
               const ResizeReport& report) override {
      EXPECT_TRUE(status.ok()) << status;
      ++*done_;
      slot_->reset();
    }

   private:
    std::shared_ptr<ResizeSink>* const slot_;
    int64_t* const done_;
  };
  constexpr ResizeStrategy kStrategies[] = {
      ResizeStrategy::kPreempt, ResizeStrategy::kEvict, ResizeStrategy::kWait};
  resize_ = std::make_shared<Sink>(&resize_, &resizes_done_);
  const size_t turn = static_cast<size_t>(resizes_begun_++);
  KV_CHECK(inbox_
               .Post(ResizeOrder{sizes_[turn % sizes_.size()],
                                 kStrategies[turn / sizes_.size() % 3], false,
                                 resize_})
               .ok());
}

std::vector<ExactnessAnswer> ExactnessRig::RunAlone(
    const std::vector<ExactnessCase>& cases) {
  std::vector<ExactnessAnswer> answers;
  for (const ExactnessCase& one : cases) {
    answers.push_back(std::move(Run({one}).front()));
  }
  return answers;
}

}  // namespace kvasir
