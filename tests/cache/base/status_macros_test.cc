#include "cache/base/status_macros.h"

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

absl::Status Twice(absl::Status first, absl::Status second, int& reached) {
  RETURN_IF_ERROR(first);
  ++reached;
  RETURN_IF_ERROR(second);
  ++reached;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnIfErrorStopsAtTheFirstErrorAndKeepsIt) {
  // A status that is replaced on its way up loses its numbers.
  int reached = 0;
  EXPECT_EQ(Twice(absl::OkStatus(), absl::NotFoundError("b 7"), reached),
            absl::NotFoundError("b 7"));
  EXPECT_EQ(reached, 1);
  EXPECT_TRUE(Twice(absl::OkStatus(), absl::OkStatus(), reached).ok());
  EXPECT_EQ(reached, 3);
}

absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a,
                        absl::StatusOr<int> b) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> first, std::move(a));
  int second = 0;
  ASSIGN_OR_RETURN(second, b);
  return *first + second;
}

TEST(StatusMacrosTest, AssignOrReturnMovesValuesAndPassesErrors) {
  // Values that can only be moved are what most of our functions return.
  EXPECT_EQ(*Sum(std::make_unique<int>(3), 4), 7);
  EXPECT_EQ(Sum(absl::InternalError("a"), 4).status(),
            absl::InternalError("a"));
  EXPECT_EQ(Sum(std::make_unique<int>(3), absl::InternalError("b")).status(),
            absl::InternalError("b"));
}

}  // namespace
}  // namespace kvasir
