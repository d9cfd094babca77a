#ifndef KVASIR_TESTS_CACHE_CACHE_TESTING_H_
#define KVASIR_TESTS_CACHE_CACHE_TESTING_H_

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"

namespace kvasir {

// What the tests of the cache's parts share.

// Tokens per block of SmallLayout(): few, so that blocks fill soon.
constexpr int32_t kSmallBlock = 4;

// A layout with 16 bytes per token.
constexpr KvLayout SmallLayout(int32_t block_tokens = kSmallBlock) {
  return {.layer_count = 1,
          .kv_head_count = 1,
          .head_dim = 2,
          .block_tokens = block_tokens,
          .type = KvType::kF32};
}

// The tokens first, first + 1, ... (`count` of them).
inline std::vector<TokenId> Tokens(TokenId first, int64_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline KvCache::Options SmallOptions(int64_t blocks,
                                     int32_t block_tokens = kSmallBlock) {
  KvCache::Options options;
  options.layout = SmallLayout(block_tokens);
  options.capacity_blocks = blocks;
  return options;
}

inline std::unique_ptr<KvCache> MakeCache(const KvCache::Options& options) {
  auto cache = KvCache::Create(options, MakeHostMemory(), MakeLruPolicy());
  EXPECT_TRUE(cache.ok()) << cache.status();
  return *std::move(cache);
}

inline Lease Open(KvCache& cache, const LeaseRequest& request) {
  auto lease = cache.OpenLease(request);
  EXPECT_TRUE(lease.ok()) << lease.status();
  return *std::move(lease);
}

inline Lease Open(KvCache& cache, VersionId version,
                  absl::Span<const TokenId> tokens,
                  std::string_view salt = "") {
  return Open(cache, {.version = version, .tokens = tokens, .salt = salt});
}

// One step that computes `tokens` for the lease.
inline void Append(KvCache& cache, Lease& lease,
                   absl::Span<const TokenId> tokens) {
  const LeaseGrowth growth{.lease = &lease, .tokens = tokens};
  cache.Reserve({&growth, 1}).Commit();
}

// Opens a lease and computes what of `tokens` was not found.
inline Lease OpenAndFill(KvCache& cache, VersionId version,
                         absl::Span<const TokenId> tokens,
                         std::string_view salt = "") {
  Lease lease = Open(cache, version, tokens, salt);
  Append(cache, lease, tokens.subspan(lease.token_count()));
  return lease;
}

// The tokens of `tokens` that a new lease would find; leaves no lease behind.
inline int64_t FoundTokens(KvCache& cache, VersionId version,
                           absl::Span<const TokenId> tokens,
                           std::string_view salt = "") {
  return Open(cache, version, tokens, salt).cached_token_count();
}

inline BlockCounts DeviceBlocks(const KvCache& cache) {
  return cache.Snapshot().tiers.at(0).blocks;
}

inline int64_t UsedBlocks(const KvCache& cache) {
  const BlockCounts blocks = DeviceBlocks(cache);
  return blocks.total() - blocks.free - blocks.leaving;
}

// Host memory that refuses one commit and records what it was asked for.
class FlakyMemory final : public DeviceMemory {
 public:
  // What the test can still see when the arena owns the memory.
  struct Record {
    int64_t fail_at_commit = -1;  // counted from 0; -1: never
    bool fail_reserve = false;
    int64_t commits = 0;
    int64_t reserved_bytes = 0;
    int64_t committed_bytes = 0;
  };

  explicit FlakyMemory(std::shared_ptr<Record> record)
      : record_(std::move(record)) {}

  absl::StatusOr<std::byte*> Reserve(int64_t bytes) override {
    if (record_->fail_reserve) {
      return absl::ResourceExhaustedError("no addresses on purpose");
    }
    record_->reserved_bytes = bytes;
    return host_->Reserve(bytes);
  }

  absl::Status Commit(int64_t offset, int64_t bytes) override {
    if (record_->commits++ == record_->fail_at_commit) {
      return absl::ResourceExhaustedError("no commit on purpose");
    }
    const absl::Status status = host_->Commit(offset, bytes);
    record_->committed_bytes = host_->committed_bytes();
    return status;
  }

  void Decommit(int64_t offset, int64_t bytes) override {
    host_->Decommit(offset, bytes);
    record_->committed_bytes = host_->committed_bytes();
  }

  int64_t GranuleBytes() const override { return host_->GranuleBytes(); }
  int64_t committed_bytes() const override { return host_->committed_bytes(); }

 private:
  std::shared_ptr<Record> record_;
  std::unique_ptr<DeviceMemory> host_ = MakeHostMemory();
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_CACHE_CACHE_TESTING_H_
