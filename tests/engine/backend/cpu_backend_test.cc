#include "engine/backend/cpu/cpu_backend.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/ops.h"
#include "engine/backend/tensor.h"
#include "tests/engine/backend/paged_kv.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

std::unique_ptr<Backend> MakeBackend(const CpuBackendOptions& options) {
  absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

TEST(CpuBackendTest, RefusesANegativeThreadCount) {
  const auto backend = MakeCpuBackend({.thread_count = -1});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(backend.status().message(), HasSubstr("found -1"));
}

TEST(CpuBackendTest, NumericsNameWhatChangesABit) {
  // The name is part of every cached block's identity: equal names over unequal
  // kernels would be a wrong hit.
  const auto fast = MakeBackend({.thread_count = 1});
  const auto threads = MakeBackend({.thread_count = 3});
  const auto scalar = MakeBackend({.thread_count = 1, .force_scalar = true});
  const auto exact =
      MakeBackend({.thread_count = 1, .activations = ActivationType::kF32});
  EXPECT_EQ(fast->name(), "cpu");
  EXPECT_THAT(fast->numerics(), HasSubstr(SimdTargetName(BestSimdTarget())));
  EXPECT_EQ(scalar->numerics(), "cpu/1/scalar/q8");
  EXPECT_EQ(threads->numerics(), fast->numerics());
  EXPECT_THAT(exact->numerics(), testing::EndsWith("/f32"));
  EXPECT_NE(exact->numerics(), fast->numerics());
}

TEST(CpuBackendTest, TestsCanNarrowTheTarget) {
  for (SimdTarget target : UsableSimdTargets()) {
    hwy::SetSupportedTargetsForTest(static_cast<int64_t>(target));
    const auto backend = MakeBackend({.thread_count = 1});
    EXPECT_THAT(backend->numerics(), HasSubstr(SimdTargetName(target)));
    hwy::SetSupportedTargetsForTest(0);
  }
}

TEST(CpuBackendTest, BuffersLieOnCacheLines) {
  const auto backend = MakeBackend({.thread_count = 1});
  for (int64_t bytes : {0, 1, 63, 4096, 1000003}) {
    const auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
    if (bytes > 0) std::memset((*buffer)->data(), 1, bytes);
  }
}

TEST(CpuBackendTest, MemoryThatIsNotThereIsAStatus) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the process instead";
#endif
  const auto backend = MakeBackend({.thread_count = 1});
  const auto buffer = backend->Allocate(int64_t{1} << 50);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(buffer.status().message(), HasSubstr("1125899906842624 bytes"));
}

// (force_scalar, threads)
class CpuBackendStepTest
    : public testing::TestWithParam<std::tuple<bool, int32_t>> {};

INSTANTIATE_TEST_SUITE_P(Backends, CpuBackendStepTest,
                         testing::Combine(testing::Bool(),
                                          testing::Values(1, 3)));

TEST_P(CpuBackendStepTest, EveryOpReachesItsKernel) {
  // A layer in small: what each op yields is known without computing it again.
  const auto backend = MakeBackend({.thread_count = std::get<1>(GetParam()),
                                    .force_scalar = std::get<0>(GetParam())});
  constexpr int64_t kColumns = 64;
  std::vector<float> identity(kColumns * kColumns, 0.0f);
  for (int64_t i = 0; i < kColumns; ++i) identity[i * kColumns + i] = 2.0f;
  const auto weight =
      backend->LoadWeight({DType::kF32, kColumns, kColumns,
                           reinterpret_cast<const uint8_t*>(identity.data())});
  ASSERT_TRUE(weight.ok()) << weight.status();

  const std::vector<TokenId> ids = {3, 7};
  Matrix x(2, kColumns);
  ops::Embed(*backend, **weight, ids, 0.5f, x.View());
  EXPECT_EQ(x.Row(0)[3], 1.0f);
  EXPECT_EQ(x.Row(1)[7], 1.0f);
  EXPECT_EQ(x.Row(1)[3], 0.0f);

  Matrix normed(2, kColumns);
  ops::RmsNorm(*backend, x.View(), std::vector<float>(kColumns, 1.0f), 0.0f,
               normed.View());
  EXPECT_NEAR(normed.Row(0)[3], 8.0f, 1e-5f);

  Matrix doubled(2, kColumns);
  const LinearOutput output = {weight->get(), {}, doubled.View(), false};
  ops::Linear(*backend, normed.View(), {&output, 1});
  EXPECT_NEAR(doubled.Row(0)[3], 16.0f, 1e-4f);

  // One head of 64; the token at position 0 sees itself alone, so attention
  // returns its value.
  const KvLayout layout = {1, 1, kColumns, 16, KvType::kF32};
  PagedKv kv(layout, 2);
  const SequenceRows rows = {0, 2, 0, kv.Table()};
  const std::vector<float> frequencies(kColumns / 2, 0.1f);
  const RopeSpec rope = {RopeSpec::Pairing::kHalves, kColumns, frequencies,
                         1.0f};
  Matrix query = doubled;
  Matrix key = doubled;
  Matrix context(2, kColumns);
  ops::RopeAndStore(*backend, rope, layout, 0, {&rows, 1}, query.View(),
                    key.View(), doubled.View());
  ops::PagedAttention(*backend, layout, 0, 0.0f, {&rows, 1}, query.View(),
                      context.View());
  EXPECT_EQ(context.Row(0)[3], doubled.Row(0)[3]);
  // With a scale of 0 both tokens weigh the same.
  EXPECT_NEAR(context.Row(1)[3], doubled.Row(0)[3] / 2, 1e-5f);
  EXPECT_NEAR(context.Row(1)[7], doubled.Row(1)[7] / 2, 1e-5f);

  ops::GatedActivation(*backend, GateFunction::kSilu, context.View(),
                       doubled.View(), context.View());
  const double gate = doubled.Row(0)[3];
  EXPECT_NEAR(context.Row(0)[3], gate * gate / (1 + std::exp(-gate)), 1e-3);
  ops::Add(*backend, x.View(), doubled.View());
  EXPECT_NEAR(doubled.Row(1)[7], 17.0f, 1e-4f);
}

}  // namespace
}  // namespace kvasir
