#include "engine/model/byte_pair_merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvasir {
namespace {

using Pair = std::pair<TokenId, TokenId>;

// Bytes are their own ids; `merges` get ids from 256 on.
MergeTable MakeTable(const std::vector<Pair>& merges) {
  MergeTable table;
  for (int byte = 0; byte < 256; ++byte) table.byte_tokens[byte] = byte;
  for (size_t i = 0; i < merges.size(); ++i) {
    table.Add(merges[i].first, merges[i].second,
              {static_cast<int32_t>(i), static_cast<TokenId>(256 + i)});
  }
  return table;
}

std::vector<TokenId> Merge(const MergeTable& table, std::string_view word) {
  BytePairMerger merger(&table);
  merger.AppendWord(word);
  return merger.TakeIds();
}

// The textbook: look at all pairs, join the most urgent, again.
std::vector<TokenId> MergeNaively(const std::vector<Pair>& merges,
                                  std::string_view word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(static_cast<uint8_t>(c));
  while (true) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const size_t rank =
          std::find(merges.begin(), merges.end(), Pair(ids[i], ids[i + 1])) -
          merges.begin();
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == merges.size()) return ids;
    ids[best] = static_cast<TokenId>(256 + best_rank);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BytePairMerger, JoinsTheMostUrgentPairFirst) {
  const MergeTable table = MakeTable({{'b', 'c'}, {'a', 'b'}});
  EXPECT_EQ(Merge(table, "abc"), (std::vector<TokenId>{'a', 256}));
}

// Of equals the leftmost joins first, so a run of three leaves its last alone.
TEST(BytePairMerger, JoinsTheLeftmostOfEquals) {
  const MergeTable table = MakeTable({{'a', 'a'}});
  EXPECT_EQ(Merge(table, "aaa"), (std::vector<TokenId>{256, 'a'}));
}

TEST(BytePairMerger, EmptyWordAndWordWithoutMerges) {
  const MergeTable table = MakeTable({{'a', 'a'}});
  EXPECT_TRUE(Merge(table, "").empty());
  EXPECT_EQ(Merge(table, "xyz"), (std::vector<TokenId>{'x', 'y', 'z'}));
}

// The reference leaves such bytes out before it merges: their neighbours join.
TEST(BytePairMerger, BytesWithoutTokenVanishBeforeMerging) {
  MergeTable table = MakeTable({{'a', 'b'}});
  table.byte_tokens['x'] = -1;
  EXPECT_EQ(Merge(table, "axb"), (std::vector<TokenId>{256}));
  EXPECT_TRUE(Merge(table, "xxx").empty());
}

TEST(BytePairMerger, KeepsTheFirstOfTwoMergesOfAPair) {
  const MergeTable table = MakeTable({{'a', 'b'}, {'a', 'b'}});
  EXPECT_EQ(Merge(table, "ab"), (std::vector<TokenId>{256}));
}

// Short words are scanned and long ones go through a heap with outdated
// entries: both must be the textbook's algorithm. Few letters and many merges
// make ties and chains frequent.
TEST(BytePairMerger, EqualsTheTextbookOnRandomVocabularies) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    std::vector<Pair> merges;
    auto any_token = [&]() -> TokenId {
      const size_t pick = random() % (letters + merges.size());
      return static_cast<TokenId>(pick < static_cast<size_t>(letters)
                                      ? 'a' + pick
                                      : 256 + pick - letters);
    };
    for (int i = static_cast<int>(random() % 40); i > 0; --i) {
      const Pair pair = {any_token(), any_token()};
      if (std::count(merges.begin(), merges.end(), pair) == 0) {
        merges.push_back(pair);
      }
    }
    // A later merge may be more urgent than one it builds on.
    std::vector<Pair> shuffled = merges;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const MergeTable table = MakeTable(shuffled);
    for (int length : {1, 2, 5, 12, BytePairMerger::kMaxScannedTokens,
                       BytePairMerger::kMaxScannedTokens + 1, 60, 200}) {
      std::string word;
      while (length-- > 0) {
        word.push_back(static_cast<char>('a' + random() % letters));
      }
      ASSERT_EQ(Merge(table, word), MergeNaively(shuffled, word)) << word;
    }
  }
}

// TOK-1, counted in steps: the pairs looked at grow like n log n at most,
// on runs that merge into ever longer tokens.
TEST(BytePairMerger, StepsGrowNearlyLinearly) {
  std::vector<Pair> merges = {{'a', 'a'}};
  for (TokenId id = 256; merges.size() < 12; ++id) merges.push_back({id, id});
  const MergeTable table = MakeTable(merges);
  std::map<int, int64_t> steps;
  for (const int size : {30'000, 60'000, 1'000'000}) {
    BytePairMerger merger(&table);
    merger.AppendWord(std::string(size, 'a'));
    steps[size] = merger.steps();
    EXPECT_LT(steps[size], int64_t{8} * size);
  }
  EXPECT_LT(steps[60'000], 3 * steps[30'000]);
}

}  // namespace
}  // namespace kvasir
