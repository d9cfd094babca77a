// Contract C1 over all fields of an identity at once: ten thousand random
// probes, each of which differs from what is cached in exactly one field of the
// fingerprint, in the label, in the salt or in one token.

#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"
#include "engine/fingerprint.h"

namespace kvasir {
namespace {

constexpr int kProbes = 10000;
constexpr int kProbesPerCache = 50;
constexpr int64_t kBlock = 4;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int Below(int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(engine_);
  }
  // Short texts of few letters, so that fields often look like each other.
  std::string Text() {
    std::string text(Below(4), 'a');
    for (char& letter : text) letter = "ab1:"[Below(4)];
    return text;
  }

 private:
  std::mt19937 engine_;
};

struct Identity {
  std::string digest;
  std::string numerics;
  ModelConfig config;
  KvLayout layout;
  std::string label;
  std::string salt;
  std::vector<TokenId> tokens;

  std::string Fingerprint() const {
    return CacheFingerprint({.weights_digest = digest,
                             .config = &config,
                             .layout = layout,
                             .backend_numerics = numerics});
  }
};

Identity RandomIdentity(Random& random) {
  Identity identity;
  identity.digest = random.Text();
  identity.numerics = random.Text();
  identity.config.architecture = random.Text();
  identity.config.head_count = 1 + random.Below(4);
  identity.config.norm_epsilon = 0.5f + random.Below(4);
  identity.config.attention_scale = 0.5f + random.Below(4);
  identity.config.rope.rotated_dim = 2 * random.Below(4);
  identity.config.rope.magnitude = 1.0f + random.Below(4);
  identity.config.rope.inverse_frequencies.assign(1 + random.Below(3), 0.25f);
  identity.layout = {.layer_count = 1 + random.Below(4),
                     .kv_head_count = 1 + random.Below(4),
                     .head_dim = 1 + random.Below(4),
                     .block_tokens = 1 + random.Below(4)};
  identity.label = random.Text();
  identity.salt = random.Text();
  for (int64_t i = 0; i <= 3 * kBlock; ++i) {
    identity.tokens.push_back(random.Below(3));
  }
  return identity;
}

// Changes one field and nothing else.
void Spoil(Identity& identity, Random& random) {
  const std::vector<std::function<void()>> changes = {
      [&] { identity.digest += "a"; }, [&] { identity.numerics += "b"; },
      [&] { identity.config.architecture += "1"; },
      [&] { ++identity.config.head_count; },
      [&] { identity.config.norm_epsilon *= 2; },
      [&] { identity.config.attention_scale *= 2; },
      [&] { identity.config.rope.pairing = RopeSpec::Pairing::kHalves; },
      [&] { ++identity.config.rope.rotated_dim; },
      [&] { identity.config.rope.magnitude += 1; },
      [&] { identity.config.rope.inverse_frequencies.back() = 0.125f; },
      [&] { identity.config.rope.inverse_frequencies.push_back(0.25f); },
      [&] { ++identity.layout.layer_count; },
      [&] { ++identity.layout.kv_head_count; },
      [&] { ++identity.layout.head_dim; },
      [&] { ++identity.layout.block_tokens; },
      [&] { identity.layout.type = KvType::kF32; },
      [&] { identity.label += ":"; }, [&] { identity.salt += "a"; },
      // In the first block, so that none of the prefix may be found.
      [&] { identity.tokens[random.Below(kBlock)] += 3; }};
  changes[random.Below(static_cast<int>(changes.size()))]();
}

class Probe {
 public:
  Probe() {
    auto cache =
        KvCache::Create({.layout = {.layer_count = 1,
                                    .kv_head_count = 1,
                                    .head_dim = 2,
                                    .block_tokens = kBlock},
                         .capacity_blocks = 8 * kProbesPerCache,
                         // Half of the probes fall on the same few hashes.
                         .index_hash_bits = 8},
                        MakeHostMemory(), MakeLruPolicy());
    EXPECT_TRUE(cache.ok());
    cache_ = *std::move(cache);
  }

  // A request with that identity; returns how many tokens it found.
  int64_t Serve(const Identity& identity) {
    const std::string name =
        absl::StrCat(identity.Fingerprint(), "/", identity.label);
    auto known = versions_.find(name);
    if (known == versions_.end()) {
      known = versions_
                  .emplace(name, cache_->AddVersion(identity.label,
                                                    identity.Fingerprint()))
                  .first;
    }
    auto lease = cache_->OpenLease({.version = known->second,
                                    .tokens = identity.tokens,
                                    .salt = identity.salt});
    EXPECT_TRUE(lease.ok());
    const int64_t found = lease->cached_token_count();
    const LeaseGrowth growth{
        &*lease, absl::MakeConstSpan(identity.tokens).subspan(found)};
    cache_->Reserve({&growth, 1}).Commit();
    return found;
  }

 private:
  std::unique_ptr<KvCache> cache_;
  std::map<std::string, VersionId> versions_;
};

TEST(IdentityProbe, OneFieldThatDiffersIsAMissAndNoneIsAHit) {
  const uint32_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  Random random(seed);
  constexpr int64_t kWhole = 3 * kBlock;
  for (int done = 0; done < kProbes; done += kProbesPerCache) {
    Probe probe;
    for (int i = 0; i < kProbesPerCache; ++i) {
      Identity identity = RandomIdentity(random);
      // What earlier probes have left behind must not be what is probed.
      identity.digest += absl::StrCat("#", done + i);
      ASSERT_EQ(probe.Serve(identity), 0);
      ASSERT_EQ(probe.Serve(identity), kWhole);
      Identity other = identity;
      Spoil(other, random);
      ASSERT_EQ(probe.Serve(other), 0) << done + i;
      ASSERT_EQ(probe.Serve(other), kWhole);
      ASSERT_EQ(probe.Serve(identity), kWhole);
    }
  }
}

}  // namespace
}  // namespace kvasir
