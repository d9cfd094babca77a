#include "server/cancel_call.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/request_codec.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CancelCallTest : public testing::Test {
 protected:
  absl::StatusOr<v1::CancelGenerationResponse> Cancel(
      const std::vector<std::string>& ids, const Caller& caller = {}) {
    request_.clear_request_ids();
    for (const std::string& id : ids) request_.add_request_ids(id);
    return AnswerCancel(request_, backend_, caller);
  }

  // Nothing is cancelled, and `wanted` is said.
  void ExpectRefused(const std::vector<std::string>& ids,
                     const std::string& wanted) {
    const absl::Status status = Cancel(ids).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wanted));
    EXPECT_THAT(backend_.cancelled(), IsEmpty());
  }

  v1::CancelGenerationRequest request_;
  FakeBackend backend_;
};

TEST_F(CancelCallTest, EachIdIsCancelledAndAnsweredOnce) {
  const auto answer = Cancel({"b", "a", "b", "b"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->cancelled_ids(), ElementsAre("b", "a"));
  EXPECT_THAT(backend_.cancelled(), ElementsAre("b", "a"));
  EXPECT_THAT(backend_.cancel_reasons(),
              ElementsAre("no reason given", "no reason given"));
}

// An id that nobody can have is a client's mistake, which an answer of "not in
// flight" would hide; and half an order is none.
TEST_F(CancelCallTest, IdsThatCannotBeAreRefusedBeforeAnyIsCancelled) {
  ExpectRefused({}, "request_ids: wanted 1 to 1024 ids, found 0");
  ExpectRefused(std::vector<std::string>(1025, "a"), "found 1025");
  ExpectRefused({"a", ""}, "request_ids[1]: wanted 1 to 128 bytes, found 0");
  ExpectRefused({"a", std::string(129, 'b')}, "found 129");
  ExpectRefused({"a", "b c"}, "request_ids[1]: wanted visible ASCII");
  ExpectRefused({"a\n"}, "byte 10 at 1");
  request_.set_reason(std::string(257, 'x'));
  ExpectRefused({"a"}, "reason: wanted at most 256 bytes, found 257");
}

TEST_F(CancelCallTest, AReasonIsOneLine) {
  request_.set_reason("two\nlines");
  EXPECT_TRUE(Cancel({"a"}).ok());
  EXPECT_THAT(backend_.cancel_reasons(), ElementsAre("two\\nlines"));
}

TEST_F(CancelCallTest, OperatorsNameTenantsToo) {
  const std::string longest(kMaxRequestIdBytes, 'x');
  const Caller tenant{.tenant = "acme", .may_admin = false};
  const Caller both{.tenant = "ops", .may_admin = true};
  EXPECT_TRUE(Cancel({longest}, tenant).ok());
  EXPECT_THAT(backend_.cancelled(), ElementsAre("acme/" + longest));
  EXPECT_FALSE(Cancel({"acme/" + longest}, tenant).ok());
  EXPECT_TRUE(Cancel({"acme/" + longest}, both).ok());
}

}  // namespace
}  // namespace kvasir
