#include "server/model_codec.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "engine/prefix_order.h"

namespace kvasir {
namespace {

TEST(ModelCodecTest, CacheStatsSayWhoLostWhatAndWhatIsHot) {
  // An operator asks here why a prefix is gone, and which ones to pin.
  EngineStats stats;
  stats.cache.block_tokens = 16;
  stats.cache.token_bytes = 100;
  stats.cache.counters.evicted[EvictionCause::kCanary] = 3;
  VersionSnapshot version;
  version.id = VersionId(4);
  version.label = "blue";
  version.state = "serving";
  version.bytes = {.reserved = 1, .tokens = 2, .fragmentation = 3};
  version.quota_blocks = 9;
  version.evicted[EvictionCause::kQuota] = 7;
  stats.cache.versions.push_back(version);
  TenantSnapshot tenant;
  tenant.salt = "alice";
  tenant.quota = {.floor_blocks = 5, .max_blocks = 50};
  tenant.blocks = 20;
  tenant.at_rest = 12;
  tenant.evicted[EvictionCause::kCapacity] = 2;
  stats.cache.tenants.push_back(tenant);
  stats.hot_prefixes.push_back({.version = VersionId(4),
                                .id = std::string(64, 'a'),
                                .salt_hash = HashSalt("alice"),
                                .tokens = 160,
                                .hits = 11});
  const v1::CacheStats wire =
      EncodeCacheStats(ModelInfo(), stats, {}, absl::UnixEpoch());
  EXPECT_EQ(wire.evicted_blocks(), 3);
  EXPECT_EQ(wire.evicted_canary_blocks(), 3);
  ASSERT_EQ(wire.versions_size(), 1);
  EXPECT_EQ(wire.versions(0).bytes().fragmentation(), 3);
  EXPECT_EQ(wire.versions(0).quota_blocks(), 9);
  EXPECT_EQ(wire.versions(0).evicted_blocks().at("quota"), 7);
  EXPECT_EQ(wire.versions(0).evicted_blocks().size(), 1u);
  ASSERT_EQ(wire.tenants_size(), 1);
  EXPECT_EQ(wire.tenants(0).salt_hash(), HashSalt("alice"));
  EXPECT_EQ(wire.tenants(0).floor_blocks(), 5);
  EXPECT_EQ(wire.tenants(0).max_blocks(), 50);
  EXPECT_EQ(wire.tenants(0).findable_blocks(), 20);
  EXPECT_EQ(wire.tenants(0).cached_blocks(), 12);
  EXPECT_EQ(wire.tenants(0).evicted_blocks().at("capacity"), 2);
  ASSERT_EQ(wire.top_prefixes_size(), 1);
  EXPECT_EQ(wire.top_prefixes(0).prefix_id(), std::string(64, 'a'));
  EXPECT_EQ(wire.top_prefixes(0).version(), "blue");
  EXPECT_EQ(wire.top_prefixes(0).block_count(), 10);
  EXPECT_EQ(wire.top_prefixes(0).byte_size(), 16000);
  EXPECT_EQ(wire.top_prefixes(0).hit_count(), 11);
  EXPECT_EQ(wire.DebugString().find("alice"), std::string::npos)
      << "a salt may be a secret";
}

}  // namespace
}  // namespace kvasir
