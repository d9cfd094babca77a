#include "tests/bench/kv_memory.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "cache/base/check.h"
#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"

namespace kvasir::bench {
namespace {

std::unique_ptr<KvCache> MakeCache(const KvLayout& layout, int64_t blocks) {
  auto cache = KvCache::Create(
      {.layout = layout, .capacity_blocks = blocks, .prefix_caching = false},
      MakeHostMemory(), MakeLruPolicy());
  KV_CHECK(cache.ok()) << cache.status();
  return *std::move(cache);
}

// Sums of places over steps; divided by the sum of all places at the end.
struct PlaceSums {
  double tokens = 0, internal = 0, reservation = 0, external = 0;
  int64_t steps = 0;

  MemoryShares Shares(int64_t preemptions) const {
    const double all = tokens + internal + reservation + external;
    return {tokens / all,   internal / all, reservation / all,
            external / all, preemptions,    steps};
  }
};

struct Running {
  RequestLength length;
  int64_t held = 0;   // tokens in memory
  int64_t begin = 0;  // contiguous: first place
  Lease lease;        // paged
};

bool Finished(const Running& run) {
  return run.held >= run.length.prompt_tokens + run.length.output_tokens;
}

class PagedRun {
 public:
  PagedRun(const KvLayout& layout, int64_t capacity_tokens)
      : cache_(MakeCache(layout, capacity_tokens / layout.block_tokens)),
        version_(cache_->AddVersion("bench", "bench")) {}

  // Admits while the next request's prompt and one more block for everyone
  // fit; then everyone grows by a token. Memory is counted in pieces.
  void Step(std::deque<RequestLength>& queue) {
    while (!queue.empty()) {
      const KvLayout& layout = cache_->layout();
      const int64_t prompt = layout.PiecesFor(queue.front().prompt_tokens);
      const int64_t headroom =
          (static_cast<int64_t>(running_.size()) + 1) * layout.PiecesPerBlock();
      if (cache_->Capacity().available_pieces() < prompt + headroom) break;
      Running run{.length = queue.front()};
      queue.pop_front();
      auto lease = cache_->OpenLease(
          {.version = version_, .tokens = {}, .read_cache = false});
      KV_CHECK(lease.ok()) << lease.status();
      run.lease = *std::move(lease);
      Append(run, run.length.prompt_tokens);
      running_.push_back(std::move(run));
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      while (i < running_.size() && cache_->PiecesNeeded(running_[i].lease, 1) >
                                        cache_->Capacity().available_pieces()) {
        queue.push_front(running_.back().length);
        running_.pop_back();
        ++preemptions_;
      }
      if (i < running_.size()) Append(running_[i], 1);
    }
    std::erase_if(running_, Finished);
  }

  void Count(PlaceSums& sums) const {
    const ByteAccount bytes = cache_->Snapshot().tiers[0].bytes;
    const double token = static_cast<double>(cache_->layout().TokenBytes());
    sums.tokens += static_cast<double>(bytes.tokens) / token;
    sums.internal += static_cast<double>(bytes.fragmentation) / token;
    sums.external += static_cast<double>(bytes.free) / token;
    ++sums.steps;
  }

  int64_t preemptions() const { return preemptions_; }

 private:
  void Append(Running& run, int64_t tokens) {
    const std::vector<TokenId> ids(tokens, 0);
    const LeaseGrowth growth{&run.lease, ids};
    cache_->Reserve({&growth, 1}).Commit();
    run.held += tokens;
  }

  std::unique_ptr<KvCache> cache_;
  VersionId version_;
  std::vector<Running> running_;
  int64_t preemptions_ = 0;
};

// First place of the first hole of `size` places among `running`, which is in
// order of place.
std::optional<int64_t> FirstFit(const std::vector<Running>& running,
                                int64_t capacity, int64_t size,
                                int64_t max_tokens) {
  int64_t begin = 0;
  for (const Running& run : running) {
    if (run.begin - begin >= size) return begin;
    begin = run.begin + run.length.prompt_tokens + max_tokens;
  }
  if (capacity - begin >= size) return begin;
  return std::nullopt;
}

}  // namespace

std::vector<RequestLength> MakeMix(uint64_t seed, int count,
                                   int64_t max_tokens) {
  std::mt19937_64 random(seed);
  const auto length = [&](double median) {
    // Log-normal with a spread of a factor e, by Box and Muller's transform, so
    // that every standard library draws the same.
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1.0p-53;
    const double v = static_cast<double>(random() >> 11) * 0x1.0p-53;
    const double normal =
        std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979 * v);
    return std::clamp<int64_t>(std::llround(median * std::exp(normal)), 4,
                               max_tokens);
  };
  std::vector<RequestLength> mix;
  for (int i = 0; i < count; ++i) mix.push_back({length(160), length(120)});
  return mix;
}

MemoryShares SimulatePaged(const KvLayout& layout, int64_t capacity_tokens,
                           const std::vector<RequestLength>& mix) {
  PagedRun run(layout, capacity_tokens);
  std::deque<RequestLength> queue(mix.begin(), mix.end());
  PlaceSums sums;
  while (!queue.empty()) {
    run.Step(queue);
    run.Count(sums);
  }
  return sums.Shares(run.preemptions());
}

MemoryShares SimulateContiguous(int64_t capacity_tokens, int64_t max_tokens,
                                const std::vector<RequestLength>& mix) {
  std::deque<RequestLength> queue(mix.begin(), mix.end());
  std::vector<Running> running;
  PlaceSums sums;
  while (!queue.empty()) {
    const int64_t size = queue.front().prompt_tokens + max_tokens;
    const auto begin = FirstFit(running, capacity_tokens, size, max_tokens);
    if (begin.has_value()) {
      Running run{.length = queue.front(),
                  .held = queue.front().prompt_tokens,
                  .begin = *begin};
      const auto after = std::find_if(
          running.begin(), running.end(),
          [&](const Running& other) { return other.begin > *begin; });
      running.insert(after, std::move(run));
      queue.pop_front();
      continue;  // admit all that fit before the next token
    }
    double used = 0;
    for (Running& run : running) {
      ++run.held;
      const double final_tokens = static_cast<double>(run.length.prompt_tokens +
                                                      run.length.output_tokens);
      const double kept =
          static_cast<double>(run.length.prompt_tokens + max_tokens);
      sums.tokens += static_cast<double>(run.held);
      sums.reservation += final_tokens - static_cast<double>(run.held);
      sums.internal += kept - final_tokens;
      used += kept;
    }
    sums.external += static_cast<double>(capacity_tokens) - used;
    ++sums.steps;
    std::erase_if(running, Finished);
  }
  return sums.Shares(0);
}

std::vector<int64_t> SpreadLengths(int64_t mean, int64_t count) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(1 + ((2 * mean - 2) * i + (count - 1) / 2) / (count - 1));
  }
  return lengths;
}

double MeasureInternalFragmentation(const KvLayout& layout,
                                    const std::vector<int64_t>& lengths) {
  int64_t blocks = 0;
  for (const int64_t length : lengths) blocks += layout.BlocksFor(length);
  const auto cache = MakeCache(layout, blocks);
  const VersionId version = cache->AddVersion("bench", "bench");
  std::vector<Lease> leases;
  for (size_t i = 0; i < lengths.size(); ++i) {
    auto lease = cache->OpenLease(
        {.version = version, .tokens = {}, .read_cache = false});
    KV_CHECK(lease.ok()) << lease.status();
    leases.push_back(*std::move(lease));
  }
  const std::vector<TokenId> ids(
      *std::max_element(lengths.begin(), lengths.end()), 0);
  const auto step = [&](auto tokens_of) {
    std::vector<LeaseGrowth> growths;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t count = tokens_of(i);
      if (count == 0) continue;
      growths.push_back({&leases[i], {ids.data(), static_cast<size_t>(count)}});
    }
    cache->Reserve(growths).Commit();
    return !growths.empty();
  };
  step([&](size_t i) { return lengths[i] / 2; });
  while (step([&](size_t i) {
    return std::min<int64_t>(1, lengths[i] - leases[i].token_count());
  })) {
  }
  const ByteAccount bytes = cache->Snapshot().tiers[0].bytes;
  return static_cast<double>(bytes.fragmentation) /
         static_cast<double>(bytes.fragmentation + bytes.tokens);
}

double InternalFragmentationOfBlocks(const KvLayout& layout,
                                     const std::vector<int64_t>& lengths) {
  int64_t tokens = 0;
  int64_t places = 0;
  for (const int64_t length : lengths) {
    tokens += length;
    places += layout.BlocksFor(length) * layout.block_tokens;
  }
  return static_cast<double>(places - tokens) / static_cast<double>(places);
}

double MeasureBytesPerToken(const KvLayout& layout, int64_t tokens) {
  const auto cache = MakeCache(layout, layout.BlocksFor(tokens));
  const VersionId version = cache->AddVersion("bench", "bench");
  auto lease =
      cache->OpenLease({.version = version, .tokens = {}, .read_cache = false});
  KV_CHECK(lease.ok()) << lease.status();
  const std::vector<TokenId> ids(tokens, 0);
  const LeaseGrowth growth{&*lease, ids};
  cache->Reserve({&growth, 1}).Commit();
  return static_cast<double>(cache->Snapshot().tiers[0].bytes.tokens) /
         static_cast<double>(tokens);
}

}  // namespace kvasir::bench
