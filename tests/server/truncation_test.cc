#include "server/truncation.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TokenId kBos = 1;

TEST(TruncateIdsTest, LeavesOutTheWantedEndAndKeepsTheBeginning) {
  const std::vector<TokenId> ids = {kBos, 10, 11, 12, 13};
  EXPECT_THAT(TruncateIds(ids, 5, false, kBos).ids,
              ElementsAre(kBos, 10, 11, 12, 13));
  EXPECT_EQ(TruncateIds(ids, 9, false, kBos).dropped_tokens, 0);
  EXPECT_THAT(TruncateIds(ids, 3, false, kBos).ids, ElementsAre(kBos, 12, 13));
  EXPECT_THAT(TruncateIds(ids, 3, true, kBos).ids, ElementsAre(kBos, 10, 11));
  EXPECT_THAT(TruncateIds(ids, 3, false, -1).ids, ElementsAre(11, 12, 13))
      << "no BOS token to keep";
  EXPECT_THAT(TruncateIds(ids, 1, false, kBos).ids, ElementsAre(13))
      << "a prompt of BOS alone says nothing";
  EXPECT_EQ(TruncateIds(ids, 3, false, kBos).dropped_tokens, 2);
}

// FIELD_CASES CTX-1: the system part is kept, whole turns go, and the reply
// says how much is gone.
class TruncateChatTest : public testing::Test {
 protected:
  TruncateChatTest()
      : tokenizer_(MakeTinyTokenizer()),
        version_(MakeTinyVersion(tokenizer_, MakeTinyInfo(*tokenizer_))) {
    Add("system", "MARKER");
    for (int i = 0; i < 6; ++i) {
      Add("user", "question " + std::to_string(i));
      Add("assistant", "answer " + std::to_string(i));
    }
    Add("user", "the last one");
  }

  void Add(const std::string& role, const std::string& content) {
    auto& message = *chat_.add_messages();
    message.set_role(role);
    message.set_content(content);
  }

  absl::StatusOr<TruncatedPrompt> Truncate(int64_t most) {
    return TruncateChat(chat_, most, ModelOf(*version_),
                        [&] { return ++asked_ > ends_after_; });
  }

  std::string TextOf(const TruncatedPrompt& prompt) {
    return DecodeText(*tokenizer_, prompt.ids, /*skip_special=*/true);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ServedVersion> version_;
  v1::ChatPrompt chat_;
  int asked_ = 0;  // whether the call has ended
  int ends_after_ = 1 << 20;
};

TEST_F(TruncateChatTest, DropsTheOldestTurnsAsAWhole) {
  const int64_t whole = Truncate(1 << 20)->ids.size();
  EXPECT_EQ(Truncate(whole)->dropped_tokens, 0);
  int64_t previous = whole + 1;
  for (int64_t most = whole; most > 80; most -= 7) {
    const auto prompt = Truncate(most);
    ASSERT_TRUE(prompt.ok()) << most << " " << prompt.status();
    const int64_t kept = prompt->ids.size();
    EXPECT_LE(kept, most);
    EXPECT_LE(kept, previous) << "less room, no more text";
    EXPECT_EQ(prompt->dropped_tokens, whole - kept);
    const std::string text = TextOf(*prompt);
    EXPECT_THAT(text, HasSubstr("MARKER"));
    EXPECT_THAT(text, HasSubstr("the last one"));
    // Right after the system message a user speaks.
    EXPECT_THAT(text, HasSubstr("MARKER\nuser\n"));
    previous = kept;
  }
}

TEST_F(TruncateChatTest, RefusesWhatEvenTheLastTurnIsTooLongFor) {
  const absl::Status status = Truncate(20).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(
      std::string(status.message()),
      testing::AllOf(testing::StartsWith("output.truncate_prompt_tokens: "),
                     HasSubstr("found 20")));
}

// A long chat is rendered a dozen times; a client that is gone waits for none.
TEST_F(TruncateChatTest, StopsBetweenRenderingsOnceTheCallHasEnded) {
  const int64_t whole = Truncate(1 << 20)->ids.size();
  EXPECT_EQ(asked_, 1);
  asked_ = 0;
  ASSERT_TRUE(Truncate(whole - 1).ok());
  const int all = asked_;
  EXPECT_GT(all, 2);
  for (ends_after_ = 0; ends_after_ < all; ++ends_after_) {
    asked_ = 0;
    EXPECT_TRUE(absl::IsCancelled(Truncate(whole - 1).status()));
    EXPECT_EQ(asked_, ends_after_ + 1);
  }
}

TEST(MostPromptTokensTest, LeavesRoomForTheOutput) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeTinyTokenizer();
  const auto version = MakeTinyVersion(tokenizer, MakeTinyInfo(*tokenizer));
  const ServedModel model = ModelOf(*version);
  ASSERT_EQ(model.max_context, 256);
  EXPECT_EQ(MostPromptTokens({.most_tokens = 30}, 10, model), 30);
  EXPECT_EQ(MostPromptTokens({.most_tokens = -1}, 10, model), 246);
  EXPECT_EQ(MostPromptTokens({.most_tokens = -1}, 0, model), 255);
  EXPECT_EQ(MostPromptTokens({.most_tokens = -1}, 9999, model), 1);
}

}  // namespace
}  // namespace kvasir
