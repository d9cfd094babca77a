#include "server/status_mapping.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/status_details.h"

namespace kvasir {
namespace {

struct Case {
  absl::Status status;
  grpc::StatusCode code;
  const char* reason;
  // Kinds of details beside ErrorInfo and RequestInfo, with blanks between.
  const char* kinds = "";
  const char* field = "";
};

// One row per kind of error that the server itself makes; those of the engine
// are in status_reason_test.cc.
TEST(StatusMappingTest, Table) {
  const Case cases[] = {
      {absl::InvalidArgumentError("sampling.top_p: wanted 0 to 1, found 2"),
       grpc::INVALID_ARGUMENT, "INVALID_ARGUMENT", "BadRequest",
       "sampling.top_p"},
      {absl::InvalidArgumentError(
           "prompt: wanted at most 255 tokens (a context "
           "of 256 less one to generate), found 300"),
       grpc::INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED", "BadRequest",
       "prompt"},
      {absl::InvalidArgumentError("chat.messages[3].role: wanted user"),
       grpc::INVALID_ARGUMENT, "INVALID_ARGUMENT", "BadRequest",
       "chat.messages[3].role"},
      {absl::InvalidArgumentError("something else"), grpc::INVALID_ARGUMENT,
       "INVALID_ARGUMENT"},
      {absl::NotFoundError("model: no model \"a\" is loaded"), grpc::NOT_FOUND,
       "NOT_FOUND", "ResourceInfo"},
      {absl::NotFoundError("something else"), grpc::NOT_FOUND, "NOT_FOUND"},
      {absl::AlreadyExistsError("x"), grpc::ALREADY_EXISTS,
       "REQUEST_ID_IN_FLIGHT"},
      {absl::AlreadyExistsError("label: a version is called so"),
       grpc::ALREADY_EXISTS, "LABEL_TAKEN"},
      {absl::FailedPreconditionError("x"), grpc::FAILED_PRECONDITION,
       "FAILED_PRECONDITION", "PreconditionFailure"},
      {absl::ResourceExhaustedError("inbox_limit: 3 requests wait"),
       grpc::RESOURCE_EXHAUSTED, "QUEUE_FULL", "QuotaFailure RetryInfo"},
      {absl::ResourceExhaustedError("prompt: wanted at most 319 tokens"),
       grpc::RESOURCE_EXHAUSTED, "CACHE_TOO_SMALL", "QuotaFailure"},
      {WithReason(absl::ResourceExhaustedError("slow"), kReasonSlowClient),
       grpc::RESOURCE_EXHAUSTED, "SLOW_CLIENT"},
      {WithLimit(absl::ResourceExhaustedError("y"), {"a.b", "server", "m", 3}),
       grpc::RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", "QuotaFailure"},
      {absl::DeadlineExceededError("x"), grpc::DEADLINE_EXCEEDED,
       "DEADLINE_EXCEEDED"},
      {absl::CancelledError("x"), grpc::CANCELLED, "CANCELLED"},
      {absl::UnavailableError("x"), grpc::UNAVAILABLE, "UNAVAILABLE",
       "RetryInfo"},
      {WithReason(absl::UnavailableError("x"), kReasonLoading),
       grpc::UNAVAILABLE, "MODEL_LOADING", "RetryInfo"},
      {absl::UnimplementedError("cache.ttl: not there"), grpc::UNIMPLEMENTED,
       "NOT_IMPLEMENTED", "BadRequest", "cache.ttl"},
      {absl::UnimplementedError("kvasir.v1.CacheAdmin/PinPrefix is not built"),
       grpc::UNIMPLEMENTED, "NOT_IMPLEMENTED"},
      {absl::UnauthenticatedError("x"), grpc::UNAUTHENTICATED,
       "UNAUTHENTICATED"},
      {absl::PermissionDeniedError("x"), grpc::PERMISSION_DENIED,
       "PERMISSION_DENIED"},
      {absl::OutOfRangeError("x"), grpc::OUT_OF_RANGE, "OUT_OF_RANGE"},
      {absl::InternalError("x"), grpc::INTERNAL, "INTERNAL"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.status.ToString());
    const grpc::Status wire = ToGrpcStatus(c.status, "r1");
    EXPECT_EQ(wire.error_code(), c.code);
    const StatusDetails details = DetailsOf(wire);
    EXPECT_EQ(details.info.reason(), c.reason);
    EXPECT_EQ(details.info.domain(), "kvasir");
    EXPECT_THAT(details.info.reason(),
                testing::MatchesRegex("[A-Z][A-Z0-9_]+[A-Z0-9]"));
    EXPECT_LE(details.info.reason().size(), 63u);
    EXPECT_EQ(details.request.request_id(), "r1");
    std::set<std::string> kinds = {"ErrorInfo", "RequestInfo"};
    for (const auto kind :
         absl::StrSplit(c.kinds, ' ', absl::SkipWhitespace())) {
      kinds.emplace(kind);
    }
    std::set<std::string> found;
    for (const auto& [kind, count] : details.counts) found.insert(kind);
    EXPECT_EQ(found, kinds);
    if (*c.field == '\0') continue;
    ASSERT_EQ(details.bad.field_violations_size(), 1);
    EXPECT_EQ(details.bad.field_violations(0).field(), c.field);
    EXPECT_EQ(absl::StrCat(c.field, ": ",
                           details.bad.field_violations(0).description()),
              std::string(c.status.message()));
  }
}

// Machines read numbers out of the details, not out of sentences.
TEST(StatusMappingTest, LimitsAreNamedWithWhatWasWantedAndFound) {
  const StatusDetails limit = DetailsOf(ToGrpcStatus(WithLimit(
      absl::ResourceExhaustedError("wanted at most 8 streams, found 9"),
      {"server.max_streams", "server", "streams", 8})));
  EXPECT_EQ(limit.info.metadata().at("limit"), "server.max_streams");
  EXPECT_EQ(limit.info.metadata().at("wanted"), "at most 8 streams");
  EXPECT_EQ(limit.info.metadata().at("found"), "9");
  ASSERT_EQ(limit.quota.violations_size(), 1);
  EXPECT_EQ(limit.quota.violations(0).quota_id(), "server.max_streams");
  EXPECT_EQ(limit.quota.violations(0).subject(), "server");
  EXPECT_EQ(limit.quota.violations(0).quota_metric(), "streams");
  EXPECT_EQ(limit.quota.violations(0).quota_value(), 8);
}

TEST(StatusMappingTest, PreconditionsAndResourcesAreNamed) {
  const StatusDetails active =
      DetailsOf(ToGrpcStatus(absl::FailedPreconditionError(
          "version: \"a\" is the active one; activate another first")));
  ASSERT_EQ(active.precondition.violations_size(), 1);
  EXPECT_EQ(active.precondition.violations(0).type(), "VERSION_ACTIVE");
  EXPECT_EQ(active.precondition.violations(0).subject(), "version");
  EXPECT_FALSE(active.has("BadRequest")) << "the field is not at fault";
  const StatusDetails gone = DetailsOf(ToGrpcStatus(
      absl::NotFoundError("cache.version: no version \"blue\" is resident")));
  EXPECT_EQ(gone.resource.resource_type(), "version");
  EXPECT_EQ(gone.resource.resource_name(), "blue");
}

// Trailers of more than 8 KiB are refused by gRPC's clients, so that the error
// would be lost.
TEST(StatusMappingTest, TheLargestErrorFitsIntoTrailers) {
  std::string text = "wanted ";
  while (text.size() < 100000) text += "\xc3\xa9";
  const grpc::Status wire = ToGrpcStatus(
      WithRetry(
          WithLimit(absl::ResourceExhaustedError(text),
                    {"server.tenant_limits", std::string(1024, 't'), "m", 3}),
          absl::Seconds(1)),
      std::string(128, 'r'));
  EXPECT_LT(3 * wire.error_message().size() + wire.error_details().size(),
            7u << 10);
}

TEST(StatusMappingTest, CodesAgreeByNumber) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(
        ToGrpcStatus(absl::Status(static_cast<absl::StatusCode>(code), "x"))
            .error_code(),
        code);
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpcStatus(absl::OkStatus()).error_details(), "");
}

TEST(StatusMappingTest, RetryDelayIsTold) {
  const StatusDetails details = DetailsOf(ToGrpcStatus(
      WithRetry(absl::UnavailableError("x"), absl::Milliseconds(2500))));
  EXPECT_EQ(details.retry.retry_delay().seconds(), 2);
  EXPECT_EQ(details.retry.retry_delay().nanos(), 500000000);
  EXPECT_FALSE(details.has("RequestInfo")) << "there is no id";
}

// A client has no business with the layout of the server's disk or memory.
TEST(StatusMappingTest, PathsAndAddressesStayHere) {
  EXPECT_EQ(StripPrivate("cannot open /srv/models/a.gguf: denied"),
            "cannot open a.gguf: denied");
  EXPECT_EQ(StripPrivate("\"/etc/shadow\""), "\"shadow\"");
  EXPECT_EQ(StripPrivate("folder /srv/models/ is gone"),
            "folder [path] is gone");
  EXPECT_EQ(StripPrivate("at 0x7ffd00aa, 3"), "at [address], 3");
  EXPECT_EQ(StripPrivate("12 tokens/s, a/b, and/or / alone"),
            "12 tokens/s, a/b, and/or / alone");
  EXPECT_EQ(StripPrivate(""), "");
  EXPECT_EQ(ToGrpcStatus(absl::InternalError("x /a/b.cc:3")).error_message(),
            "x b.cc:3");
}

// Trailers have little room, and the message is in them twice.
TEST(StatusMappingTest, LongMessagesAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "é";
  const std::string message =
      ToGrpcStatus(absl::InternalError("x" + text)).error_message();
  EXPECT_LE(message.size(), 2100u);
  EXPECT_TRUE(absl::EndsWith(message, "é..."));
}

}  // namespace
}  // namespace kvasir
