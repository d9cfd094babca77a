// The replay program: its traces, its policies and what it prints. The trace
// of real conversations is replayed where KVASIR_CONVERSATION_TRACE names it.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/bench/block_trace.h"
#include "tests/bench/replay_policies.h"
#include "tests/bench/trace_replay.h"

namespace kvasir::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Line(const std::vector<int>& ids) {
  return absl::StrCat(
      R"({"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [)",
      absl::StrJoin(ids, ", "), "]}\n");
}

absl::StatusOr<BlockTrace> Read(const std::string& text) {
  std::istringstream lines(text);
  return ReadBlockTrace(lines);
}

double Ratio(const BlockTrace& trace, absl::string_view name,
             int64_t capacity) {
  auto policy = MakeReplayPolicy(name, trace);
  EXPECT_TRUE(policy.ok()) << policy.status();
  const auto result = Replay(trace, capacity, *std::move(policy));
  EXPECT_TRUE(result.ok()) << result.status();
  return result->hit_ratio();
}

// Conversations of growing length that take turns, under a few system prompts.
std::string Conversations(unsigned seed, int requests) {
  std::mt19937 random(seed);
  std::vector<std::vector<int>> talks(20);
  int next = 0;
  std::string text;
  for (int i = 0; i < requests; ++i) {
    std::vector<int>& talk = talks[random() % talks.size()];
    if (talk.empty() || random() % 6 == 0) {
      talk = {static_cast<int>(random() % 4) + 1'000'000};
    }
    for (int grow = 1 + static_cast<int>(random() % 4); grow > 0; --grow) {
      talk.push_back(next++);
    }
    text += Line(talk);
  }
  return text;
}

TEST(BlockTraceTest, ReadsIdsWithTheirParents) {
  // Ids of a trace may be sparse and large; those of ours count from zero.
  const auto trace = Read(Line({70, 80}) + "\n" + Line({70, 90, 5}));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->requests,
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2, 3)));
  EXPECT_THAT(trace->parents, ElementsAre(-1, 0, 0, 2));
  EXPECT_EQ(trace->reference_count, 5);
  EXPECT_EQ(trace->longest, 3);
}

TEST(BlockTraceTest, RefusesWhatIsNoTraceWithTheNumberOfTheLine) {
  // A wrong line that is passed over makes a hit ratio of another trace.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no block in the whole trace"},
      {Line({1}) + "{\"hash_ids\": [1", "line 2: wanted a JSON object"},
      {"[]", "line 1: wanted a JSON object"},
      {"{\"ids\": []}", "line 1: wanted a list under the key hash_ids"},
      {"{\"hash_ids\": [\"a\"]}", "line 1: wanted integers"},
      {Line({1, 2}) + Line({3, 2}), "line 2: id 2 has another id before it"},
      {Line({1, 1}), "line 1: id 1 has another id before it"}};
  for (const auto& [text, wanted] : cases) {
    const auto trace = Read(text);
    EXPECT_EQ(trace.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(wanted));
  }
  EXPECT_EQ(ReadBlockTraceFile("no/such/file").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TraceReplayTest, CountsHitsUntilTheFirstMiss) {
  // By hand: two blocks stay. Request 2 finds both of 1; request 3 pushes the
  // end of {1, 2} out, since 1 is older than 3 and in nobody's way.
  const auto trace =
      *Read(Line({1, 2}) + Line({1, 2}) + Line({3}) + Line({1, 2}));
  EXPECT_DOUBLE_EQ(Ratio(trace, "lru", 2), 3.0 / 7);
  EXPECT_DOUBLE_EQ(Ratio(trace, "lru", 3), 4.0 / 7);
}

TEST(TraceReplayTest, ARequestLongerThanTheCacheLeavesItsHead) {
  // It must neither stop the replay nor count as more than fits.
  const auto trace = *Read(Line({1, 2, 3, 4}) + Line({1, 2, 3, 4}));
  for (const absl::string_view name : kReplayPolicies) {
    EXPECT_DOUBLE_EQ(Ratio(trace, name, 2), 2.0 / 8) << name;
  }
}

TEST(TraceReplayTest, KnowsWhichPolicyWinsWhere) {
  // Frequency keeps what comes again and again, the future knows best, and
  // what never ends up short is the optimum.
  const auto trace = *Read(Conversations(1, 1500));
  for (const int64_t capacity : {40, 100, 200}) {
    const double best = Ratio(trace, "belady", capacity);
    for (const absl::string_view name : kReplayPolicies) {
      EXPECT_LE(Ratio(trace, name, capacity), best) << name;
    }
    EXPECT_LT(Ratio(trace, "lru", capacity), best);
    EXPECT_GE(Ratio(trace, "adaptive", capacity),
              Ratio(trace, "lru", capacity) - 0.003);
  }
}

TEST(TraceReplayTest, EverythingThatFitsIsFoundAgain) {
  // With room for all, only first occurrences miss, whatever the policy.
  const auto trace = *Read(Conversations(2, 300));
  const double all = 1 - static_cast<double>(trace.parents.size()) /
                             static_cast<double>(trace.reference_count);
  for (const absl::string_view name : kReplayPolicies) {
    EXPECT_DOUBLE_EQ(Ratio(trace, name, 100'000), all) << name;
  }
}

TEST(TraceReplayTest, RefusesCapacitiesAndPoliciesThatAreNone) {
  // The program prints these as they are.
  const auto trace = *Read(Line({1}));
  EXPECT_EQ(Replay(trace, 0, MakeLruPolicy()).status().message(),
            "capacity: wanted 1 to 16777216, found 0");
  EXPECT_THAT(std::string(MakeReplayPolicy("mru", trace).status().message()),
              HasSubstr("found mru"));
}

TEST(TraceReplayTest, AgreesWithTheKnownRatiosOfTheConversationTrace) {
  // Hit shares that others have computed on this trace, and
  // what our policy has to reach there.
  const char* path = std::getenv("KVASIR_CONVERSATION_TRACE");
  if (path == nullptr) GTEST_SKIP() << "KVASIR_CONVERSATION_TRACE is not set";
  const auto trace = ReadBlockTraceFile(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  struct Case {
    int64_t capacity;
    double lru, lfu, belady, ours;
  };
  for (const Case& c : {Case{1000, 4.45, 8.23, 19.07, 8.11},
                        Case{3000, 6.53, 11.79, 29.45, 12.26},
                        Case{10'000, 21.16, 18.79, 36.64, 22.91},
                        Case{30'000, 32.57, 27.99, 36.64, 32.52}}) {
    EXPECT_NEAR(100 * Ratio(*trace, "lru", c.capacity), c.lru, 0.006);
    EXPECT_NEAR(100 * Ratio(*trace, "lfu", c.capacity), c.lfu, 0.006);
    EXPECT_NEAR(100 * Ratio(*trace, "belady", c.capacity), c.belady, 0.006);
    EXPECT_GE(100 * Ratio(*trace, "adaptive", c.capacity), c.ours);
  }
}

// What the program prints on stdout and stderr, and its exit code.
std::pair<std::string, int> RunProgram(const std::string& arguments) {
  const std::string command =
      absl::StrCat(KVASIR_CACHE_REPLAY, " ", arguments, " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t read = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), read);
  }
  return {output, WEXITSTATUS(pclose(pipe))};
}

TEST(CacheReplayProgramTest, PrintsTheRatioAsJson) {
  // Machines read this key.
  const std::string path = testing::TempDir() + "/cache_replay_test.jsonl";
  std::ofstream(path) << Conversations(3, 200);
  const auto [output, code] = RunProgram(
      absl::StrCat("--json --capacity 50 --policy gdsf --trace ", path));
  EXPECT_EQ(code, 0) << output;
  const auto json = nlohmann::json::parse(output);
  EXPECT_EQ(json["hit_ratio"], json["policies"]["gdsf"]["hit_ratio"]);
  EXPECT_GE(json["policies"]["belady"]["hit_ratio"], json["hit_ratio"]);
  const auto [table, table_code] =
      RunProgram(absl::StrCat("--capacity 50 --trace ", path));
  EXPECT_EQ(table_code, 0);
  for (const absl::string_view name : kReplayPolicies) {
    EXPECT_THAT(table, HasSubstr(std::string(name)));
  }
}

TEST(CacheReplayProgramTest, SaysInOneLineWhatIsWrong) {
  // A stack trace or a silent zero would both cost the reader time.
  const std::string path = testing::TempDir() + "/cache_replay_bad.jsonl";
  std::ofstream(path) << Line({1}) << "nonsense\n";
  for (const std::string& arguments :
       {std::string("--capacity 5 --trace no/such/file"),
        absl::StrCat("--capacity 5 --trace ", path),
        absl::StrCat("--capacity 0 --trace ", path)}) {
    const auto [output, code] = RunProgram(arguments);
    EXPECT_EQ(code, 1) << output;
    EXPECT_EQ(output.find("error: "), 0u) << output;
    EXPECT_EQ(output.find('\n'), output.size() - 1) << output;
  }
}

}  // namespace
}  // namespace kvasir::bench
