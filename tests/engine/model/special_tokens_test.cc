#include "engine/model/special_tokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvasir {
namespace {

std::string Show(const SpecialTokens::Found& found) {
  return std::to_string(found.position) + "+" + std::to_string(found.bytes) +
         "=" + std::to_string(found.id);
}

TEST(SpecialTokens, FindsNothingWhereThereIsNothing) {
  SpecialTokens specials;
  EXPECT_EQ(Show(specials.Find("abc", 0, true)), "3+0=-1");
  EXPECT_EQ(Show(specials.Find("", 0, true)), "0+0=-1");
}

// "<a" must not hide "<ab>", and a start that comes to nothing must not hide
// what starts inside it.
TEST(SpecialTokens, TakesTheLongestOfTheLeftmost) {
  SpecialTokens specials;
  specials.Add("<a", 1, true);
  specials.Add("<ab>", 2, true);
  specials.Add("b>", 3, true);
  specials.Add("<<<x", 4, true);
  EXPECT_EQ(Show(specials.Find("..<ab>", 0, true)), "2+4=2");
  EXPECT_EQ(Show(specials.Find("<ab", 0, true)), "0+2=1");
  EXPECT_EQ(Show(specials.Find("ab>", 0, true)), "1+2=3");
  EXPECT_EQ(Show(specials.Find("<<<ab>", 0, true)), "2+4=2");
  EXPECT_EQ(Show(specials.Find("<ab><ab>", 1, true)), "2+2=3");
}

TEST(SpecialTokens, ControlTokensNeedPermission) {
  SpecialTokens specials;
  specials.Add("<c>", 1, true);
  specials.Add("<c", 2, false);
  EXPECT_EQ(Show(specials.Find("<c>", 0, true)), "0+3=1");
  EXPECT_EQ(Show(specials.Find("<c>", 0, false)), "0+2=2");
}

TEST(SpecialTokens, EqualsTryingEveryTokenEverywhere) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  auto any_text = [&](int longest) {
    std::string text;
    for (int i = 1 + random() % longest; i > 0; --i) {
      text.push_back(static_cast<char>('a' + random() % 2));
    }
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    SpecialTokens specials;
    std::vector<std::string> texts;
    while (texts.size() < 5) {
      const std::string text = any_text(6);
      if (std::count(texts.begin(), texts.end(), text) > 0) continue;
      specials.Add(text, static_cast<TokenId>(texts.size()),
                   texts.size() % 2 == 0);
      texts.push_back(text);
    }
    const std::string text = any_text(30);
    for (const bool allow : {false, true}) {
      SpecialTokens::Found want = {text.size(), 0, -1};
      for (size_t at = 0; at < text.size() && want.bytes == 0; ++at) {
        for (size_t id = 0; id < texts.size(); ++id) {
          if ((id % 2 == 0 && !allow) || texts[id].size() <= want.bytes ||
              text.compare(at, texts[id].size(), texts[id]) != 0) {
            continue;
          }
          want = {at, texts[id].size(), static_cast<TokenId>(id)};
        }
      }
      ASSERT_EQ(Show(specials.Find(text, 0, allow)), Show(want)) << text;
    }
  }
}

}  // namespace
}  // namespace kvasir
