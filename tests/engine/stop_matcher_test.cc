#include "engine/stop_matcher.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model/utf8.h"
#include "engine/request.h"
#include "tests/support/naive_stop.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Output {
  std::vector<std::string> sent;  // by piece, with what Finish() gave
  std::optional<size_t> matched;

  std::string text() const {
    std::string joined;
    for (const std::string& one : sent) joined += one;
    return joined;
  }
};

Output ReadAll(const std::vector<std::string>& stops, bool include_stop,
               const std::vector<StopPiece>& pieces) {
  const StopTexts texts(stops);
  StopMatcher matcher(&texts, include_stop);
  Output output;
  for (const StopPiece& piece : pieces) {
    StopMatcher::Step step = matcher.Push(piece.text, piece.may_stop);
    output.sent.push_back(std::move(step.text));
    if (step.matched.has_value()) {
      output.matched = step.matched;
      EXPECT_EQ(matcher.Finish(), "") << "nothing after a match is sent";
      return output;
    }
  }
  output.sent.push_back(matcher.Finish());
  return output;
}

// The script of STR-2, as the decoder hands it on: the é of two tokens comes
// with the second.
const std::vector<StopPiece> kHarbour = {{"The"},  {" old"}, {" har"}, {"bour"},
                                         {" caf"}, {"é"},    {"."}};

// FIELD_CASES STR-2.
TEST(StopMatcher, EndsTheTextWhereverInATokenTheMatchLies) {
  struct Case {
    const char* stop;
    const char* before;  // null: no match
  };
  for (const Case& c : std::vector<Case>{{"rbo", "The old ha"},
                                         {"d har", "The ol"},
                                         {"é", "The old harbour caf"},
                                         {"fé.", "The old harbour ca"},
                                         {"harbor", nullptr}}) {
    for (const bool include_stop : {false, true}) {
      SCOPED_TRACE(std::string(c.stop) + (include_stop ? " included" : ""));
      const Output output =
          ReadAll({"nowhere", c.stop}, include_stop, kHarbour);
      if (c.before == nullptr) {
        EXPECT_EQ(output.matched, std::nullopt);
        EXPECT_EQ(output.text(), "The old harbour café.");
        continue;
      }
      EXPECT_EQ(output.matched, 1u);
      EXPECT_EQ(output.text(),
                std::string(c.before) + (include_stop ? c.stop : ""));
    }
  }
}

// FIELD_CASES STR-3.
TEST(StopMatcher, DeliversWhatOnlyBeganAStop) {
  const Output output =
      ReadAll({"gamma ray"}, false, {{"alpha"}, {" beta"}, {" gam"}});
  EXPECT_EQ(output.matched, std::nullopt);
  EXPECT_THAT(output.sent, ElementsAre("alpha", " beta", " ", "gam"));
  const Output line = ReadAll({"\n"}, false, {{"The end"}, {".\n"}});
  EXPECT_EQ(line.matched, 0u);
  EXPECT_EQ(line.text(), "The end.");
}

TEST(StopMatcher, FirstEndWinsThenTheLongest) {
  EXPECT_EQ(ReadAll({"cd", "abcd", "bcd"}, false, {{"xabcd"}}).text(), "x");
  EXPECT_EQ(ReadAll({"cd", "abcd", "bcd"}, false, {{"xabcd"}}).matched, 1u);
  EXPECT_EQ(ReadAll({"abcd", "bc"}, false, {{"xabcd"}}).text(), "xa");
  EXPECT_EQ(ReadAll({"a", "a"}, false, {{"a"}}).matched, 0u);
}

// Before min_tokens a match is text, and may still begin the next one.
TEST(StopMatcher, PassesOverMatchesThatComeTooEarly) {
  EXPECT_EQ(ReadAll({"abab"}, false, {{"abab", false}, {"ab"}}).text(), "ab");
  EXPECT_EQ(ReadAll({"ab"}, false, {{"xab", false}, {"ya"}, {"b"}}).text(),
            "xaby");
  const Output none = ReadAll({"ab"}, false, {{"ab", false}, {"c"}});
  EXPECT_EQ(none.matched, std::nullopt);
  EXPECT_THAT(none.sent, ElementsAre("ab", "c", ""));
}

// With the stop included all of a match is sent anyway: nothing waits for it.
TEST(StopMatcher, HoldsNothingBackForAStopThatIsIncluded) {
  EXPECT_THAT(ReadAll({"gamma"}, true, {{"a gam"}, {"ma ray"}}).sent,
              ElementsAre("a gam", "ma"));
}

TEST(StopMatcher, WithoutStopsPassesTextOn) {
  EXPECT_THAT(ReadAll({}, false, {{"a"}, {""}, {"b\xC3"}, {"\xA9"}}).sent,
              ElementsAre("a", "", "b", "é", ""));
}

TEST(CheckStopStrings, NamesTheOneThatIsWrong) {
  const auto message = [](std::vector<std::string> stops) {
    return std::string(CheckStopStrings(stops).message());
  };
  const std::vector<std::string> most(kMaxStopStrings,
                                      std::string(kMaxStopBytes, 'x'));
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message(most), "");
  EXPECT_EQ(message(std::vector<std::string>(kMaxStopStrings + 1, "x")),
            "stopping.strings: wanted at most 64 texts, found 65");
  EXPECT_EQ(message({"a", ""}),
            "stopping.strings[1]: wanted 1 to 1024 bytes, found 0");
  EXPECT_EQ(message({std::string(kMaxStopBytes + 1, 'x')}),
            "stopping.strings[0]: wanted 1 to 1024 bytes, found 1025");
  EXPECT_THAT(message({"a", "b", "caf\xC3"}),
              AllOf(StartsWith("stopping.strings[2]:"), HasSubstr("byte 3")));
}

// Few letters make many overlaps; é is cut into its bytes, too.
std::string RandomText(TestRandom& random, int64_t most) {
  constexpr std::string_view kLetters[] = {"a", "b", "é", "\xF0\x9F\x98\x8A"};
  std::string text;
  for (int64_t i = random.Below(most + 1); i > 0; --i) {
    text += kLetters[random.Below(random.Below(3) == 0 ? 4 : 2)];
  }
  return text;
}

// Whatever the pieces, the result is that of the whole text, no byte is held
// that need not be, and each text is whole characters.
TEST(StopMatcher, EqualsANaiveTwinWhateverThePieces) {
  TestRandom random(21);
  int matches = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE("seed 21, round " + std::to_string(round));
    std::vector<std::string> stops;
    for (int64_t i = random.Below(5); i > 0; --i) {
      stops.push_back(absl::StrCat(random.Below(3) == 0 ? "éa" : "a",
                                   RandomText(random, 6)));
    }
    const bool include_stop = random.Below(2) == 0;
    const std::string whole = RandomText(random, 30);
    std::vector<StopPiece> pieces;
    for (size_t at = 0; at < whole.size();) {
      const size_t bytes = random.Below(5);
      const auto piece = std::string_view(whole).substr(at, bytes);
      pieces.push_back({piece, random.Below(4) != 0});
      at += piece.size();
    }
    const StopTexts texts(stops);
    StopMatcher matcher(&texts, include_stop);
    std::string sent, seen;
    std::optional<size_t> matched;
    for (const StopPiece& piece : pieces) {
      const StopMatcher::Step step = matcher.Push(piece.text, piece.may_stop);
      EXPECT_EQ(WellFormedBytes(step.text), step.text.size());
      sent += step.text;
      seen += piece.text;
      matched = step.matched;
      if (matched.has_value()) break;
      EXPECT_EQ(seen.size() - sent.size(),
                HeldNaively(stops, include_stop, seen));
    }
    sent += matcher.Finish();
    const NaiveStop want = StopNaively(stops, include_stop, pieces);
    ASSERT_EQ(matched, want.matched) << whole;
    ASSERT_EQ(sent, want.text) << whole;
    matches += matched.has_value();
  }
  EXPECT_GT(matches, 1000) << "or the test shows little";
}

}  // namespace
}  // namespace kvasir
