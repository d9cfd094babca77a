#include "engine/backend/ops.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

using testing::_;

class FakeWeight final : public Weight {
 public:
  FakeWeight(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  DType type() const override { return DType::kF32; }
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return columns_; }
  int64_t memory_bytes() const override { return rows_ * columns_ * 4; }

 private:
  int64_t rows_;
  int64_t columns_;
};

class MockBackend : public Backend {
 public:
  std::string_view name() const override { return "mock"; }
  std::string numerics() const override { return "mock"; }
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(
      const HostMatrix&) override {
    return absl::UnimplementedError("mock");
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t) override {
    return absl::UnimplementedError("mock");
  }
  MOCK_METHOD(void, EmbedKernel,
              (const Weight&, absl::Span<const TokenId>, float, Activations),
              (override));
  MOCK_METHOD(void, RmsNormKernel,
              (Activations, absl::Span<const float>, float, Activations),
              (override));
  MOCK_METHOD(void, LinearKernel, (Activations, absl::Span<const LinearOutput>),
              (override));
  MOCK_METHOD(void, RopeAndStoreKernel,
              (const RopeSpec&, const KvLayout&, int32_t,
               absl::Span<const SequenceRows>, Activations, Activations,
               Activations),
              (override));
  MOCK_METHOD(void, PagedAttentionKernel,
              (const KvLayout&, int32_t, float, absl::Span<const SequenceRows>,
               Activations, Activations),
              (override));
  MOCK_METHOD(void, GatedActivationKernel,
              (GateFunction, Activations, Activations, Activations),
              (override));
  MOCK_METHOD(void, AddKernel, (Activations, Activations), (override));
};

class OpsTest : public testing::Test {
 protected:
  OpsTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  // Views of memory that is large enough for every shape here.
  Activations Matrix(int64_t rows, int64_t columns) {
    return {memory_.data(), rows, columns, columns};
  }

  testing::StrictMock<MockBackend> backend_;
  std::vector<float> memory_ = std::vector<float>(4096);
};

using OpsDeathTest = OpsTest;

// A step of two sequences over a layout of 2 KV heads with 8 dimensions.
class SequenceOpsTest : public OpsTest {
 protected:
  SequenceOpsTest() {
    table_ = {pool_.data(), layout_.BlockBytes(), blocks_};
    rows_ = {{0, 1, 20, table_}, {1, 3, 0, table_}};
  }
  void Rope() {
    ops::RopeAndStore(backend_, rope_, layout_, layer_, rows_,
                      Matrix(4, query_columns_), Matrix(4, 16),
                      Matrix(4, value_columns_));
  }
  void Attend() {
    ops::PagedAttention(backend_, layout_, layer_, 1.0f, rows_,
                        Matrix(4, query_columns_), Matrix(4, out_columns_));
  }

  KvLayout layout_ = {2, 2, 8, 16, KvType::kF32};
  int32_t layer_ = 1;
  int64_t query_columns_ = 48;
  int64_t out_columns_ = 48;
  int64_t value_columns_ = 16;
  std::vector<std::byte> pool_ = std::vector<std::byte>(8);
  std::vector<BlockId> blocks_ = {BlockId(0), BlockId(1)};
  BlockTableView table_;
  std::vector<SequenceRows> rows_;
  std::vector<float> frequencies_ = std::vector<float>(4);
  RopeSpec rope_ = {RopeSpec::Pairing::kHalves, 8, frequencies_, 1.0f};
};

using SequenceOpsDeathTest = SequenceOpsTest;

TEST_F(OpsTest, RightShapesReachTheKernel) {
  const FakeWeight weight(10, 6);
  const std::vector<TokenId> ids = {0, 9};
  const std::vector<float> numbers(10);
  const LinearOutput output = {&weight, numbers, Matrix(2, 10), false};
  EXPECT_CALL(backend_, EmbedKernel(_, _, 2.0f, _));
  EXPECT_CALL(backend_, RmsNormKernel(_, _, 1e-5f, _));
  EXPECT_CALL(backend_, LinearKernel(_, _));
  EXPECT_CALL(backend_, GatedActivationKernel(GateFunction::kSilu, _, _, _));
  EXPECT_CALL(backend_, AddKernel(_, _));
  ops::Embed(backend_, weight, ids, 2.0f, Matrix(2, 6));
  ops::RmsNorm(backend_, Matrix(2, 10), numbers, 1e-5f, Matrix(2, 10));
  ops::Linear(backend_, Matrix(2, 6), {&output, 1});
  ops::GatedActivation(backend_, GateFunction::kSilu, Matrix(2, 6),
                       Matrix(2, 6), Matrix(2, 6));
  ops::Add(backend_, Matrix(2, 6), Matrix(2, 6));
}

TEST_F(OpsTest, NothingToDoReachesNoKernel) {
  // A step may have rows in one part of the batch only.
  const FakeWeight weight(10, 6);
  const std::vector<float> gain(6);
  const LinearOutput output = {&weight, {}, Matrix(0, 10), false};
  ops::Embed(backend_, weight, {}, 1.0f, Matrix(0, 6));
  ops::RmsNorm(backend_, Matrix(0, 6), gain, 1e-5f, Matrix(0, 6));
  ops::Linear(backend_, Matrix(0, 6), {&output, 1});
  ops::GatedActivation(backend_, GateFunction::kSilu, Matrix(0, 6),
                       Matrix(0, 6), Matrix(0, 6));
  ops::Add(backend_, Matrix(0, 6), Matrix(0, 6));
}

TEST_F(OpsDeathTest, WrongShapesSayWhatWasWanted) {
  const FakeWeight weight(10, 6);
  const std::vector<float> gain(5);
  const std::vector<TokenId> ids = {3, 10};
  const std::vector<TokenId> negative = {-1};
  EXPECT_DEATH(ops::Embed(backend_, weight, ids, 1, Matrix(2, 6)),
               "wanted a token below 10, found 10");
  EXPECT_DEATH(ops::Embed(backend_, weight, negative, 1, Matrix(1, 6)),
               "wanted a token below 10, found -1");
  EXPECT_DEATH(ops::Embed(backend_, weight, ids, 1, Matrix(3, 6)),
               "out: wanted \\[2, 6\\], found \\[3, 6\\]");
  EXPECT_DEATH(ops::RmsNorm(backend_, Matrix(2, 6), gain, 1, Matrix(2, 6)),
               "gain: wanted 6 numbers, found 5");
  EXPECT_DEATH(ops::Add(backend_, Matrix(2, 6), Matrix(2, 7)),
               "inout: wanted \\[2, 6\\], found \\[2, 7\\]");
  EXPECT_DEATH(ops::GatedActivation(backend_, GateFunction::kSilu, Matrix(2, 6),
                                    Matrix(1, 6), Matrix(2, 6)),
               "up: wanted \\[2, 6\\], found \\[1, 6\\]");
  Activations narrow = Matrix(2, 6);
  narrow.stride = 5;
  EXPECT_DEATH(ops::Add(backend_, narrow, Matrix(2, 6)),
               "in: wanted a stride of 6 or more, found 5");
  EXPECT_DEATH(ops::Add(backend_, {nullptr, 2, 6, 6}, Matrix(2, 6)),
               "in has no memory");
}

TEST_F(OpsDeathTest, LinearChecksEveryOutput) {
  const FakeWeight weight(10, 6);
  const std::vector<float> bias(9);
  const auto linear = [this](const LinearOutput& output, int64_t columns) {
    ops::Linear(backend_, Matrix(2, columns), {&output, 1});
  };
  EXPECT_DEATH(linear({nullptr, {}, Matrix(2, 10), false}, 6),
               "without a weight");
  EXPECT_DEATH(linear({&weight, {}, Matrix(2, 10), false}, 7),
               "weight: wanted 7 columns, found 6");
  EXPECT_DEATH(linear({&weight, {}, Matrix(2, 11), false}, 6),
               "out: wanted \\[2, 10\\], found \\[2, 11\\]");
  EXPECT_DEATH(linear({&weight, bias, Matrix(2, 10), false}, 6),
               "bias: wanted 10 numbers or none, found 9");
}

TEST_F(SequenceOpsTest, RightSequencesReachTheKernel) {
  EXPECT_CALL(backend_, RopeAndStoreKernel(_, layout_, 1, _, _, _, _));
  EXPECT_CALL(backend_, PagedAttentionKernel(layout_, 1, 1.0f, _, _, _));
  Rope();
  Attend();
}

TEST_F(SequenceOpsDeathTest, SequencesCoverTheRowsInOrder) {
  // A row of no sequence would attend to whatever its position was before.
  rows_[1].first_row = 2;
  EXPECT_DEATH(Rope(), "wanted a sequence from row 1 on, found 3 rows from");
  rows_[1].first_row = 1;
  rows_[1].row_count = 2;
  EXPECT_DEATH(Attend(), "wanted sequences with 4 rows in all, found 3");
}

TEST_F(SequenceOpsDeathTest, TablesReachToTheLastPosition) {
  // One block too few and the kernel reads behind the table.
  rows_[0].first_position = 32;
  EXPECT_DEATH(Attend(), "a table for 33 tokens, found 2 blocks and 0 pieces");
  rows_[0].first_position = -1;
  EXPECT_DEATH(Rope(), "wanted a position, found -1");
  rows_[0].first_position = 31;
  rows_[0].table.block_bytes = layout_.BlockBytes() - 1;
  EXPECT_DEATH(Attend(), "wanted blocks of 2048|wanted blocks of 4096");
  rows_[0].table = table_;
  rows_[0].table.base = nullptr;
  EXPECT_DEATH(Attend(), "at no address");
}

TEST_F(SequenceOpsDeathTest, LayoutsAndHeadsFit) {
  layer_ = 2;
  EXPECT_DEATH(Rope(), "wanted a layer below 2, found 2");
  layer_ = 1;
  query_columns_ = 40;
  EXPECT_DEATH(Attend(), "wanted a multiple of 2 KV heads of 8 columns");
  query_columns_ = 48;
  out_columns_ = 32;
  EXPECT_DEATH(Attend(), "out: wanted \\[4, 48\\], found \\[4, 32\\]");
  value_columns_ = 24;
  EXPECT_DEATH(Rope(), "value: wanted \\[4, 16\\], found \\[4, 24\\]");
  layout_.block_tokens = 12;
  EXPECT_DEATH(Rope(), "multiple of 8, found 12");
  layout_.block_tokens = 16;
  layout_.head_dim = 12;
  EXPECT_DEATH(Rope(), "multiple of 8, found 12");
}

TEST_F(SequenceOpsDeathTest, RopeFitsTheHead) {
  rope_.rotated_dim = 10;
  EXPECT_DEATH(Rope(), "wanted an even rotated_dim up to 8, found 10");
  rope_.rotated_dim = 6;
  EXPECT_DEATH(Rope(), "wanted 3 frequencies, found 4");
}

}  // namespace
}  // namespace kvasir
