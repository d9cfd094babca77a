#include "server/request_scan.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

#include "kvasir/v1/inference.pb.h"

namespace kvasir {
namespace {

using google::protobuf::UnknownFieldSet;
using testing::HasSubstr;
using testing::StartsWith;

// In pieces of three bytes, so that everything lies across a border somewhere.
absl::Status Scan(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(
      bytes.data(), static_cast<int>(bytes.size()), 3);
  return ScanRequest(*v1::GenerateRequest::descriptor(), stream);
}

std::string Bytes(const UnknownFieldSet& set) {
  std::string bytes;
  set.SerializeToString(&bytes);
  return bytes;
}

// `bytes` as field `number` of a message, its length before it.
std::string Field(int number, const std::string& bytes) {
  UnknownFieldSet set;
  set.AddLengthDelimited(number, bytes);
  return Bytes(set);
}

void ExpectFault(const std::string& bytes, const std::string& start,
                 const std::string& part) {
  const absl::Status status = Scan(bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(start));
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(RequestScanTest, RequestsOfAllTypesPass) {
  v1::GenerateRequest request;
  EXPECT_TRUE(Scan(request.SerializeAsString()).ok()) << "an empty one";
  request.set_request_id("r\xc3\xa9");
  request.mutable_token_ids()->add_ids(300);
  request.mutable_token_ids()->add_ids(1u << 31);
  request.mutable_sampling()->set_temperature(0.5f);
  request.mutable_sampling()->set_top_k(-1);
  request.mutable_sampling()->set_seed(~uint64_t{0});
  (*request.mutable_sampling()->mutable_logit_bias())[7] = 1.5f;
  (*request.mutable_labels())["k"] = "v";
  (*request.mutable_extensions()->mutable_fields())["n"].set_number_value(1);
  request.mutable_stopping()->add_strings("x");
  request.mutable_max_time()->set_seconds(5);
  EXPECT_TRUE(Scan(request.SerializeAsString()).ok())
      << Scan(request.SerializeAsString());
  // A list of numbers may be packed or not.
  UnknownFieldSet unpacked;
  unpacked.AddVarint(1, 5);
  EXPECT_TRUE(Scan(Field(4, Bytes(unpacked))).ok());
}

// A newer client's field narrows what it asks for; a server that overlooks it
// does more than it was asked.
TEST(RequestScanTest, FieldsWithoutANameAreRefusedAtAnyDepth) {
  UnknownFieldSet set;
  set.AddVarint(999, 1);
  ExpectFault(Bytes(set), "request: ", "number 999");
  ExpectFault(Field(4, Bytes(set)), "token_ids: ", "kvasir.v1.TokenIds");
  ExpectFault(Field(14, Bytes(set)), "max_time: ", "google.protobuf.Duration");
  ExpectFault(Field(5, Field(1, "") + Field(1, Bytes(set))),
              "chat.messages[1]: ", "number 999");
}

// Protobuf keeps these as unknown fields, and the request would run with the
// default.
TEST(RequestScanTest, FieldsOfAnotherTypeAreRefused) {
  ExpectFault(Field(6, Field(5, "forty")), "sampling: ", "number 5");
  UnknownFieldSet text;
  text.AddVarint(3, 1);
  ExpectFault(Bytes(text), "request: ", "number 3");
  UnknownFieldSet group;
  group.AddGroup(3);
  ExpectFault(Bytes(group), "request: ", "number 3");
}

TEST(RequestScanTest, TextThatIsNotUtf8IsNamed) {
  ExpectFault(Field(3, "caf\xe9!"), "text: ", "byte 233 at offset 3");
  ExpectFault(Field(5, Field(1, "") + Field(1, Field(2, "\xff"))),
              "chat.messages[1].content: ", "kvasir.v1.GenerateRequest");
  ExpectFault(Field(15, Field(1, "\xff")), "labels[0].key: ", "offset 0");
}

TEST(RequestScanTest, BrokenBytesAreNoMessage) {
  const std::string whole = Field(5, Field(1, Field(2, "hello")));
  for (size_t size = 1; size < whole.size(); ++size) {
    ExpectFault(whole.substr(0, size),
                "request: ", "wanted a kvasir.v1.GenerateRequest");
  }
  ExpectFault("\x1a\x05hi", "request: ", "wanted a");  // beyond the end
  ExpectFault(std::string("\x1a\xff\xff\xff\xff\x0f", 6), "request: ",
              "wanted a");  // a length beyond 2 GiB
  ExpectFault(std::string(1, '\0'), "request: ", "wanted a");
}

// Two bytes on the wire become an object of a hundred: whoever counts after
// parsing has paid already.
TEST(RequestScanTest, PartsAreCountedBeforeTheyCostMemory) {
  std::string messages;
  for (int i = 0; i < kMaxRequestParts - 1; ++i) messages += Field(1, "");
  EXPECT_TRUE(Scan(Field(5, messages)).ok());
  ExpectFault(Field(5, messages + Field(1, "")),
              "chat.messages[32767]: ", "at most 32768");
  std::string tools;
  for (int i = 0; i < kMaxRequestParts; ++i) tools += Field(2, "");
  ExpectFault(Field(5, tools), "chat.tools[32767]: ", "at most 32768");
}

TEST(RequestScanTest, DepthIsBounded) {
  // extensions: a list of a list of ...
  std::string value;
  for (int i = 0; i < 60; ++i) value = Field(6, Field(1, value));
  ExpectFault(Field(50, Field(1, Field(2, value))),
              "request: ", "at most 100 messages within each other");
}

}  // namespace
}  // namespace kvasir
