#include "server/status_mapping.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

// The details of a status by type; each type at most once (AIP-193).
struct Details {
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad;
  google::rpc::RetryInfo retry;
  google::rpc::RequestInfo request;
  int info_count = 0, bad_count = 0, retry_count = 0, request_count = 0;
};

Details Unpack(const grpc::Status& status) {
  google::rpc::Status wire;
  EXPECT_TRUE(wire.ParseFromString(status.error_details()));
  EXPECT_EQ(wire.code(), status.error_code());
  EXPECT_EQ(wire.message(), status.error_message());
  Details details;
  for (const auto& any : wire.details()) {
    details.info_count += any.UnpackTo(&details.info);
    details.bad_count += any.UnpackTo(&details.bad);
    details.retry_count += any.UnpackTo(&details.retry);
    details.request_count += any.UnpackTo(&details.request);
  }
  return details;
}

struct Case {
  absl::Status status;
  grpc::StatusCode code;
  const char* reason;
  bool retry;
  const char* field;
};

// One row per kind of error this server sends.
TEST(StatusMappingTest, Table) {
  const Case cases[] = {
      {absl::InvalidArgumentError("sampling.top_p: wanted 0 to 1, found 2"),
       grpc::INVALID_ARGUMENT, "INVALID_ARGUMENT", false, "sampling.top_p"},
      {absl::InvalidArgumentError(
           "prompt: wanted at most 255 tokens (a context "
           "of 256 less one to generate), found 300"),
       grpc::INVALID_ARGUMENT, "CONTEXT_LENGTH_EXCEEDED", false, "prompt"},
      {absl::InvalidArgumentError("chat.messages[3].role: wanted user"),
       grpc::INVALID_ARGUMENT, "INVALID_ARGUMENT", false,
       "chat.messages[3].role"},
      {absl::InvalidArgumentError("something else"), grpc::INVALID_ARGUMENT,
       "INVALID_ARGUMENT", false, ""},
      {absl::NotFoundError("model: wanted \"a\""), grpc::NOT_FOUND, "NOT_FOUND",
       false, ""},
      {absl::AlreadyExistsError("x"), grpc::ALREADY_EXISTS,
       "REQUEST_ID_IN_FLIGHT", false, ""},
      {absl::FailedPreconditionError("x"), grpc::FAILED_PRECONDITION,
       "FAILED_PRECONDITION", false, ""},
      {absl::ResourceExhaustedError("inbox_limit: 3 requests wait"),
       grpc::RESOURCE_EXHAUSTED, "QUEUE_FULL", true, ""},
      {absl::ResourceExhaustedError("prompt: wanted at most 319 tokens"),
       grpc::RESOURCE_EXHAUSTED, "CACHE_TOO_SMALL", false, ""},
      {WithReason(absl::ResourceExhaustedError("slow"), kReasonSlowClient),
       grpc::RESOURCE_EXHAUSTED, "CLIENT_READS_TOO_SLOWLY", false, ""},
      {absl::DeadlineExceededError("x"), grpc::DEADLINE_EXCEEDED,
       "DEADLINE_EXCEEDED", false, ""},
      {absl::CancelledError("x"), grpc::CANCELLED, "CANCELLED", false, ""},
      {absl::UnavailableError("x"), grpc::UNAVAILABLE, "UNAVAILABLE", true, ""},
      {WithReason(absl::UnavailableError("x"), kReasonLoading),
       grpc::UNAVAILABLE, "MODEL_LOADING", true, ""},
      {absl::UnimplementedError("cache.ttl: not there"), grpc::UNIMPLEMENTED,
       "NOT_IMPLEMENTED", false, "cache.ttl"},
      {absl::UnimplementedError("kvasir.v1.CacheAdmin/PinPrefix is not built"),
       grpc::UNIMPLEMENTED, "NOT_IMPLEMENTED", false, ""},
      {absl::InternalError("x"), grpc::INTERNAL, "INTERNAL", false, ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.status.ToString());
    const grpc::Status wire = ToGrpcStatus(c.status, "r1");
    EXPECT_EQ(wire.error_code(), c.code);
    const Details details = Unpack(wire);
    EXPECT_EQ(details.info_count, 1);
    EXPECT_EQ(details.info.reason(), c.reason);
    EXPECT_EQ(details.info.domain(), "kvasir");
    EXPECT_THAT(details.info.reason(),
                testing::MatchesRegex("[A-Z][A-Z0-9_]+[A-Z0-9]"));
    EXPECT_LE(details.info.reason().size(), 63u);
    EXPECT_EQ(details.retry_count, c.retry ? 1 : 0);
    EXPECT_EQ(details.bad_count, *c.field != '\0' ? 1 : 0);
    EXPECT_EQ(details.request_count, 1);
    EXPECT_EQ(details.request.request_id(), "r1");
    if (details.bad_count == 1) {
      ASSERT_EQ(details.bad.field_violations_size(), 1);
      EXPECT_EQ(details.bad.field_violations(0).field(), c.field);
      EXPECT_EQ(absl::StrCat(c.field, ": ",
                             details.bad.field_violations(0).description()),
                std::string(c.status.message()));
    }
  }
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
  const Details details = Unpack(ToGrpcStatus(
      WithRetry(absl::UnavailableError("x"), absl::Milliseconds(2500))));
  EXPECT_EQ(details.retry.retry_delay().seconds(), 2);
  EXPECT_EQ(details.retry.retry_delay().nanos(), 500000000);
  EXPECT_EQ(details.request_count, 0) << "no id, no RequestInfo";
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
