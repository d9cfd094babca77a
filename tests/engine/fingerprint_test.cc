#include "engine/fingerprint.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

struct Case {
  std::string digest = "ab12";
  std::string numerics = "avx2 q8";
  ModelConfig config;
  KvLayout layout{.layer_count = 2, .kv_head_count = 2, .head_dim = 16};

  Case() {
    config.architecture = "llama";
    config.head_count = 4;
    config.norm_epsilon = 1e-5f;
    config.attention_scale = 0.25f;
    config.rope.rotated_dim = 16;
    config.rope.inverse_frequencies = {1, 0.5f};
  }
  std::string Fingerprint() const {
    return CacheFingerprint({.weights_digest = digest,
                             .config = &config,
                             .layout = layout,
                             .backend_numerics = numerics});
  }
};

// Other programs and later releases compare it, so it must not depend on the
// process or the machine.
TEST(Fingerprint, IsAStableHexDigest) {
  EXPECT_EQ(Case().Fingerprint(), Case().Fingerprint());
  EXPECT_THAT(Case().Fingerprint(), ::testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(Case().Fingerprint().size(), 64u);
}

// Contract C1: whatever changes a byte of a block must change the identity, or
// a block of another model would be believed.
TEST(Fingerprint, EveryFieldCounts) {
  const std::vector<std::function<void(Case&)>> changes = {
      [](Case&) {},
      [](Case& c) { c.digest = "ab13"; },
      [](Case& c) { c.numerics = "scalar q8"; },
      [](Case& c) { c.config.architecture = "qwen2"; },
      [](Case& c) { c.config.head_count = 8; },
      [](Case& c) { c.config.norm_epsilon = 1e-6f; },
      [](Case& c) { c.config.attention_scale = 0.125f; },
      [](Case& c) { c.config.rope.pairing = RopeSpec::Pairing::kHalves; },
      [](Case& c) { c.config.rope.rotated_dim = 8; },
      [](Case& c) { c.config.rope.magnitude = 1.1f; },
      [](Case& c) { c.config.rope.inverse_frequencies[1] = 0.25f; },
      [](Case& c) { c.config.rope.inverse_frequencies.push_back(0.1f); },
      [](Case& c) { c.layout.layer_count = 3; },
      [](Case& c) { c.layout.kv_head_count = 4; },
      [](Case& c) { c.layout.head_dim = 32; },
      [](Case& c) { c.layout.block_tokens = 32; },
      [](Case& c) { c.layout.type = KvType::kF32; },
      // The same characters, cut elsewhere.
      [](Case& c) {
        c.digest = "ab1";
        c.config.architecture = "2llama";
      },
  };
  std::set<std::string> seen;
  for (const auto& change : changes) {
    Case changed;
    change(changed);
    seen.insert(changed.Fingerprint());
  }
  EXPECT_EQ(seen.size(), changes.size());
}

}  // namespace
}  // namespace kvasir
