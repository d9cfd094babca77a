#include "server/page.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

// Ids of all pages of a list, as a client collects them.
std::vector<int64_t> Collect(int32_t size, const std::vector<int64_t>& ids) {
  std::vector<int64_t> all;
  std::string token;
  do {
    const absl::StatusOr<Page> page = FindPage(size, token, ids);
    if (!page.ok()) {
      ADD_FAILURE() << page.status();
      break;
    }
    all.insert(all.end(), ids.begin() + page->begin, ids.begin() + page->end);
    token = page->next_token;
  } while (!token.empty());
  return all;
}

TEST(FindPage, EverySizeShowsEachEntryOnce) {
  std::vector<int64_t> ids(250);
  std::iota(ids.begin(), ids.end(), 7);
  for (const int32_t size : {0, 1, 3, 99, 100, 101, 1000, INT32_MAX}) {
    EXPECT_EQ(Collect(size, ids), ids) << size;
  }
  EXPECT_EQ(Collect(0, {}), std::vector<int64_t>());
}

TEST(FindPage, SizesAreLoweredToTheMost) {
  std::vector<int64_t> ids(250);
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_EQ(FindPage(0, "", ids)->end, 100u);
  EXPECT_EQ(FindPage(200, "", ids)->end, 100u);
  EXPECT_EQ(FindPage(5, "", ids)->end, 5u);
}

// An entry that went between two calls once took the next page's first with it.
TEST(FindPage, EntriesThatVanishMoveNoOther) {
  const std::string token = FindPage(2, "", {1, 2, 3, 4})->next_token;
  const absl::StatusOr<Page> page = FindPage(2, token, {3, 4});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->begin, 0u);
  EXPECT_EQ(page->end, 2u);
  EXPECT_EQ(FindPage(2, token, {})->end, 0u);
}

TEST(FindPage, WhatNoAnswerHeldIsRefused) {
  for (const char* token : {"x", "after-", "after--1", "after-1 ", "after-01",
                            "1", "after-99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FindPage(1, token, {1, 2}).status()))
        << token;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(FindPage(-1, "", {1}).status()));
}

}  // namespace
}  // namespace kvasir
