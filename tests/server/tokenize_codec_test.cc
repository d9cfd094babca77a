#include "server/tokenize_codec.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class TokenizeCodecTest : public testing::Test {
 protected:
  TokenizeCodecTest() { Use({}); }

  // From now on the vocabulary lacks these bytes.
  void Use(const std::vector<uint8_t>& lost_bytes) {
    tokenizer_ = MakeTinyTokenizer(lost_bytes);
    version_ = MakeTinyVersion(tokenizer_, MakeTinyInfo(*tokenizer_));
  }

  ServedModel Model() const { return ModelOf(*version_); }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ServedVersion> version_;
};

// A text of one-byte tokens: each costs three bytes as an id and some ten as a
// token with offsets.
TEST_F(TokenizeCodecTest, AnswersThatAreTooLongAreRefused) {
  v1::TokenizeRequest request;
  request.set_text(std::string(900000, '\x01'));
  const size_t ids = tokenizer_->Encode(request.text(), true).size();
  ASSERT_GT(ids, kMaxAnswerBytes / 10) << "too few to be too long";
  const absl::StatusOr<v1::TokenizeResponse> small =
      AnswerTokenize(request, Model());
  if (small.ok()) {
    EXPECT_LE(small->ByteSizeLong(), kMaxAnswerBytes);
  }
  request.set_with_offsets(true);
  const absl::Status status = AnswerTokenize(request, Model()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("text: wanted"), HasSubstr("1048576 bytes"),
                    HasSubstr(std::to_string(ids))));
  request.set_text(std::string(4 << 20, '\x01'));
  request.set_with_offsets(false);
  EXPECT_TRUE(
      absl::IsInvalidArgument(AnswerTokenize(request, Model()).status()));
}

// What a context has room for is no question of Tokenize, whatever the input.
TEST_F(TokenizeCodecTest, ChatMayBeLongerThanTheContext) {
  v1::TokenizeRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content(std::string(100000, '\x01'));
  ASSERT_TRUE(CheckInput(request, Model()).ok());
  const auto answer = AnswerTokenize(request, Model());
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GT(answer->token_count(), answer->max_context());
}

// A few bytes of ids stand for a lot of text.
TEST_F(TokenizeCodecTest, TextThatIsTooLongIsRefused) {
  TokenId longest = 0;
  for (TokenId id = 0; id < tokenizer_->size(); ++id) {
    if (tokenizer_->TokenBytes(id).size() >
        tokenizer_->TokenBytes(longest).size()) {
      longest = id;
    }
  }
  const size_t bytes = tokenizer_->TokenBytes(longest).size();
  ASSERT_GT(bytes, 1u);
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Resize(static_cast<int>(kMaxAnswerBytes / bytes),
                                      static_cast<uint32_t>(longest));
  const absl::StatusOr<v1::DetokenizeResponse> most =
      AnswerDetokenize(request, Model());
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->text().size(), kMaxAnswerBytes / bytes * bytes);
  request.add_token_ids(static_cast<uint32_t>(longest));
  request.add_token_ids(static_cast<uint32_t>(longest));
  const absl::Status status = AnswerDetokenize(request, Model()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(StartsWith("token_ids: wanted"), HasSubstr("1048576 bytes")));
}

// SmolLM2's vocabulary lacks 21 bytes; they leave no token, and every offset
// after one was wrong.
TEST_F(TokenizeCodecTest, OffsetsSkipBytesWithoutAToken) {
  Use({0x01, 0xF1});
  v1::TokenizeRequest request;
  request.set_text(
      "\x01"
      "a\x01\x01The\xf1\x81\x80\x80!\x01");
  request.set_with_offsets(true);
  const absl::StatusOr<v1::TokenizeResponse> answer =
      AnswerTokenize(request, Model());
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::string covered;
  int end = 0;
  for (const v1::Token& token : answer->tokens()) {
    EXPECT_GE(token.start(), end) << "no overlap";
    end = token.end();
    EXPECT_EQ(
        request.text().substr(static_cast<size_t>(token.start()),
                              static_cast<size_t>(token.end() - token.start())),
        tokenizer_->TokenBytes(static_cast<TokenId>(token.id())));
    covered += tokenizer_->TokenBytes(static_cast<TokenId>(token.id()));
  }
  EXPECT_EQ(covered, "aThe\x81\x80\x80!") << "two bytes are lost";
}

// Where a byte is lost, its neighbours may become one token.
TEST_F(TokenizeCodecTest, TokenAroundALostByteCoversIt) {
  Use({0x01});
  v1::TokenizeRequest request;
  request.set_text("T\x01he!");
  request.set_with_offsets(true);
  const absl::StatusOr<v1::TokenizeResponse> answer =
      AnswerTokenize(request, Model());
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->tokens_size(), 2);
  EXPECT_EQ(answer->tokens(0).start(), 0);
  EXPECT_EQ(answer->tokens(answer->tokens_size() - 1).start(), 4);
  EXPECT_EQ(answer->tokens(answer->tokens_size() - 1).end(), 5);
}

}  // namespace
}  // namespace kvasir
