// What a KV cache is worth, on real weights:
//
//   kv_bench --model MODEL.gguf [--json] [--threads N] [--repeat N]
//
// For lengths 128 to 2048, the time of one next-token step with the cache (one
// row, its keys and values read from blocks) and without (all rows again);
// bytes of KV per token; the share of KV memory that holds tokens, paged
// against contiguous; and what the open blocks of running sequences leave
// unused.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "CLI/CLI.hpp"
#include "engine/backend/cpu/cpu_backend.h"
#include "tests/bench/kv_memory.h"
#include "tests/support/model_fixture.h"

namespace kvasir::bench {
namespace {

constexpr int64_t kLengths[] = {128, 256, 512, 1024, 2048};
// The memory comparison: as many requests as make its averages steady, on
// memory for about a dozen of the longest.
constexpr int kMixRequests = 2000;
constexpr int64_t kMixMaxTokens = 1024;
constexpr int64_t kMixCapacityTokens = 32768;
constexpr uint64_t kMixSeed = 1;
// Mean lengths at which internal fragmentation is measured, of how many
// sequences.
constexpr int64_t kMeanLengths[] = {17, 512};
constexpr int64_t kLengthCount = 63;

struct StepTimes {
  int64_t length = 0;
  double cached_ms = 0;
  double uncached_ms = 0;
};

template <typename Work>
double MedianMs(int repeat, Work work) {
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - start)
                        .count());
  }
  std::nth_element(times.begin(), times.begin() + repeat / 2, times.end());
  return times[repeat / 2];
}

std::vector<TokenId> RandomTokens(int64_t count, int32_t vocabulary) {
  std::mt19937_64 random(kMixSeed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % vocabulary);
  }
  return tokens;
}

StepTimes MeasureSteps(ModelFixture& model, int64_t length, int repeat) {
  const std::vector<TokenId> tokens =
      RandomTokens(length + 1, model.config().vocab_size);
  model.ReserveTokens(length + 1);
  StepTimes times{.length = length};
  times.uncached_ms = MedianMs(repeat, [&] { model.Append(tokens, 0); });
  const absl::Span<const TokenId> last(&tokens.back(), 1);
  times.cached_ms = MedianMs(10 * repeat, [&] { model.Append(last, length); });
  return times;
}

// Slope of log(time) over log(length), least squares: 1 means linear.
double GrowthExponent(const std::vector<StepTimes>& steps,
                      double StepTimes::*time) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const StepTimes& step : steps) {
    const double x = std::log(static_cast<double>(step.length));
    const double y = std::log(step.*time);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

struct Fragmentation {
  int64_t mean = 0;
  double all_equal = 0;    // every sequence has just so many tokens
  double spread = 0;       // from 1 to about twice as many
  double whole_equal = 0;  // the same two if each had whole blocks
  double whole_spread = 0;
};

struct Report {
  std::vector<StepTimes> steps;
  double exponent_cached = 0;
  double exponent_uncached = 0;
  double bytes_per_token = 0;
  double bytes_per_token_7b = 0;
  MemoryShares paged, contiguous;
  std::vector<Fragmentation> fragmentation;
};

nlohmann::json SharesJson(const MemoryShares& shares) {
  return {{"tokens", shares.tokens},
          {"internal_fragmentation", shares.internal},
          {"reservation", shares.reservation},
          {"external_fragmentation", shares.external}};
}

void PrintJson(const Report& report) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StepTimes& step : report.steps) {
    steps.push_back({{"length", step.length},
                     {"cached_ms", step.cached_ms},
                     {"uncached_ms", step.uncached_ms},
                     {"speedup", step.uncached_ms / step.cached_ms}});
  }
  nlohmann::json fragmentation = nlohmann::json::array();
  for (const Fragmentation& one : report.fragmentation) {
    fragmentation.push_back({{"mean_tokens", one.mean},
                             {"all_equal", one.all_equal},
                             {"spread", one.spread},
                             {"whole_blocks_all_equal", one.whole_equal},
                             {"whole_blocks_spread", one.whole_spread}});
  }
  const StepTimes& longest = report.steps.back();
  const nlohmann::json json = {
      {"steps", steps},
      {"speedup_2048", longest.uncached_ms / longest.cached_ms},
      {"cached_step_ms_2048", longest.cached_ms},
      {"uncached_step_ms_2048", longest.uncached_ms},
      {"growth_exponent_cached", report.exponent_cached},
      {"growth_exponent_uncached", report.exponent_uncached},
      {"kv_bytes_per_token", report.bytes_per_token},
      {"kv_bytes_per_token_llama_7b_f16", report.bytes_per_token_7b},
      {"utilization_paged", report.paged.tokens},
      {"utilization_contiguous", report.contiguous.tokens},
      {"memory_paged", SharesJson(report.paged)},
      {"memory_contiguous", SharesJson(report.contiguous)},
      {"internal_fragmentation", fragmentation},
  };
  std::printf("%s\n", json.dump(2).c_str());
}

void PrintShares(const char* name, const MemoryShares& shares) {
  std::printf("  %-24s %8.1f %% %10.1f %% %11.1f %% %10.1f %%\n", name,
              100 * shares.tokens, 100 * shares.internal,
              100 * shares.reservation, 100 * shares.external);
}

void PrintTable(const Report& report) {
  std::printf("One next-token step, median\n");
  std::printf("  %8s %12s %14s %8s\n", "context", "cached", "recomputed",
              "ratio");
  for (const StepTimes& step : report.steps) {
    std::printf("  %8lld %9.2f ms %11.1f ms %7.1fx\n",
                static_cast<long long>(step.length), step.cached_ms,
                step.uncached_ms, step.uncached_ms / step.cached_ms);
  }
  std::printf("  time grows as length^%.2f cached, length^%.2f recomputed\n\n",
              report.exponent_cached, report.exponent_uncached);
  std::printf("KV bytes per token\n");
  std::printf("  this model %.0f, a 7B Llama at f16 %.0f (computed)\n\n",
              report.bytes_per_token, report.bytes_per_token_7b);
  std::printf("Where %lld token places of KV memory are, %d mixed requests\n",
              static_cast<long long>(kMixCapacityTokens), kMixRequests);
  std::printf("  %-24s %10s %12s %13s %12s\n", "", "tokens", "internal",
              "reservation", "external");
  PrintShares("paged, 16 a block", report.paged);
  PrintShares("contiguous, max_tokens", report.contiguous);
  std::printf("\nInternal fragmentation of %lld running sequences\n",
              static_cast<long long>(kLengthCount));
  std::printf("  %12s %10s %10s %24s\n", "mean tokens", "all equal", "spread",
              "(in whole blocks)");
  for (const Fragmentation& one : report.fragmentation) {
    std::printf("  %12lld %8.1f %% %8.1f %% %11.1f %% %8.1f %%\n",
                static_cast<long long>(one.mean), 100 * one.all_equal,
                100 * one.spread, 100 * one.whole_equal,
                100 * one.whole_spread);
  }
}

Fragmentation MeasureFragmentation(const KvLayout& layout, int64_t mean) {
  const std::vector<int64_t> equal(kLengthCount, mean);
  const std::vector<int64_t> spread = SpreadLengths(mean, kLengthCount);
  return {.mean = mean,
          .all_equal = MeasureInternalFragmentation(layout, equal),
          .spread = MeasureInternalFragmentation(layout, spread),
          .whole_equal = InternalFragmentationOfBlocks(layout, equal),
          .whole_spread = InternalFragmentationOfBlocks(layout, spread)};
}

Report Measure(ModelFixture& model, int repeat) {
  Report report;
  for (const int64_t length : kLengths) {
    std::fprintf(stderr, "measuring at %lld tokens\n",
                 static_cast<long long>(length));
    report.steps.push_back(MeasureSteps(model, length, repeat));
  }
  report.exponent_cached = GrowthExponent(report.steps, &StepTimes::cached_ms);
  report.exponent_uncached =
      GrowthExponent(report.steps, &StepTimes::uncached_ms);
  report.bytes_per_token = MeasureBytesPerToken(model.layout(), 2048);
  const KvLayout llama_7b = {
      .layer_count = 32, .kv_head_count = 32, .head_dim = 128};
  report.bytes_per_token_7b = static_cast<double>(llama_7b.TokenBytes());
  const auto mix = MakeMix(kMixSeed, kMixRequests, kMixMaxTokens);
  report.paged = SimulatePaged(model.layout(), kMixCapacityTokens, mix);
  report.contiguous =
      SimulateContiguous(kMixCapacityTokens, kMixMaxTokens, mix);
  for (const int64_t mean : kMeanLengths) {
    report.fragmentation.push_back(MeasureFragmentation(model.layout(), mean));
  }
  return report;
}

}  // namespace
}  // namespace kvasir::bench

int main(int argc, char** argv) {
  CLI::App app("Measures what the KV cache saves in time and memory");
  std::string model_path;
  bool json = false;
  int threads = 0, repeat = 3;
  app.add_option("--model", model_path, "a GGUF file")->required();
  app.add_flag("--json", json, "print JSON instead of tables");
  app.add_option("--threads", threads, "0: all the process may use");
  app.add_option("--repeat", repeat, "runs behind each median")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  if (auto file = kvasir::GgufFile::Open(model_path); !file.ok()) {
    std::fprintf(stderr, "error: %s\n", file.status().ToString().c_str());
    return 1;
  }
  kvasir::ModelFixture model(model_path, {.thread_count = threads},
                             kvasir::KvType::kF16);
  const kvasir::bench::Report report = kvasir::bench::Measure(model, repeat);
  json ? kvasir::bench::PrintJson(report) : kvasir::bench::PrintTable(report);
  return 0;
}
