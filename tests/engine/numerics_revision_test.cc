// Blocks of two builds are shared by their fingerprint alone. So a change of a
// bit in a key or a value must come with another kNumericsRevision.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/fingerprint.h"
#include "engine/model/sha256.h"
#include "tests/support/model_fixture.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr int64_t kTokens = 37;

struct Pinned {
  int revision;
  const char* digest;
};
// The two move together.
constexpr Pinned kPinned = {
    2, "43145eb5617eb6bb11caed59b21ab14a0a2a56de4ddb7e741d0c1751bd3488fb"};

// Of the blocks that a prompt leaves, by the portable kernels: the same on
// every machine.
void AddBlocks(const TinyModelOptions& options, ActivationType activations,
               KvType kv_type, Sha256& hash) {
  const std::string bytes = TinyModelBytes(options);
  ModelFixture model(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      {.thread_count = 1, .activations = activations, .force_scalar = true},
      kv_type);
  TestRandom random(11);
  std::vector<TokenId> tokens(kTokens);
  for (TokenId& id : tokens) id = static_cast<TokenId>(random.Below(250));
  model.ReserveTokens(kTokens);
  model.Append(tokens, 0);
  const BlockTableView table = model.Table();
  hash.Update({reinterpret_cast<const uint8_t*>(table.base),
               table.blocks.size() * static_cast<size_t>(table.block_bytes)});
}

TEST(NumericsRevision, GrowsWithEveryChangeOfAKeyOrAValue) {
  Sha256 hash;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto matrix_type = static_cast<DType>(type);
    const bool has_wide_blocks = DTypeBlockElements(matrix_type) > 64;
    const TinyModelOptions options = {.matrix_type = matrix_type,
                                      .hidden_dim = has_wide_blocks ? 256 : 64};
    AddBlocks(options, ActivationType::kQ8, KvType::kF16, hash);
  }
  const TinyModelOptions qwen = {.architecture = "qwen2"};
  for (const KvType kv_type : {KvType::kF16, KvType::kF32}) {
    AddBlocks(qwen, ActivationType::kQ8, kv_type, hash);
    AddBlocks(qwen, ActivationType::kF32, kv_type, hash);
  }
  EXPECT_EQ(hash.Hex(), kPinned.digest)
      << "Keys, values or their places are others than before. If that is "
         "meant, raise kNumericsRevision in engine/fingerprint.h and write it "
         "here with the new digest.";
  EXPECT_EQ(kNumericsRevision, kPinned.revision);
}

}  // namespace
}  // namespace kvasir
