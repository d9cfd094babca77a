// Calls about prefixes to a live server whose engine is a stand-in.

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/prefix_codec.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

class PrefixCallsTest : public testing::Test {
 protected:
  PrefixCallsTest() {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_.server().Serve(std::move(backend));
    for (const char digit : {'a', 'b', 'c'}) {
      CachedPrefix prefix;
      prefix.id = std::string(kPrefixIdDigits, digit);
      prefix.created = absl::FromUnixSeconds(1);
      all_.push_back(prefix);
    }
    backend_->SetPrefixes(all_);
  }

  grpc::Status Evict(const v1::EvictPrefixesRequest& request,
                     v1::EvictPrefixesResponse& answer) {
    grpc::ClientContext context;
    return live_.admin().EvictPrefixes(&context, request, &answer);
  }
  void ExpectEvictRefused(const v1::EvictPrefixesRequest& request,
                          grpc::StatusCode code, const std::string& part) {
    v1::EvictPrefixesResponse answer;
    const grpc::Status status = Evict(request, answer);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
  }

  LiveServer live_;
  FakeBackend* backend_ = nullptr;
  std::vector<CachedPrefix> all_;
};

TEST_F(PrefixCallsTest, ListsInPages) {
  v1::ListPrefixesRequest request;
  request.set_model("tiny");
  request.set_page_size(2);
  request.mutable_filter()->set_salt("s");
  std::string ids;
  int calls = 0;
  do {
    grpc::ClientContext context;
    v1::ListPrefixesResponse answer;
    const grpc::Status status =
        live_.admin().ListPrefixes(&context, request, &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Prefix& prefix : answer.prefixes()) {
      ids += prefix.prefix_id()[0];
    }
    request.set_page_token(answer.next_page_token());
    ++calls;
  } while (!request.page_token().empty());
  EXPECT_EQ(ids, "abc");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(backend_->selection().model, "tiny");
  EXPECT_EQ(backend_->selection().salt, "s");

  request.set_order_by("size");
  grpc::ClientContext context;
  v1::ListPrefixesResponse answer;
  const grpc::Status status =
      live_.admin().ListPrefixes(&context, request, &answer);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("order_by"));
}

TEST_F(PrefixCallsTest, GetsPinsAndUnpins) {
  grpc::ClientContext contexts[3];
  v1::GetPrefixRequest get;
  get.set_prefix_id("aaaaaaaa");
  v1::GetPrefixResponse got;
  ASSERT_TRUE(live_.admin().GetPrefix(&contexts[0], get, &got).ok());
  EXPECT_EQ(got.prefix().prefix_id(), all_[0].id);
  v1::PinPrefixRequest pin;
  pin.set_prefix_id("bbbbbbbb");
  pin.set_retention(v1::RETENTION_PINNED);
  pin.mutable_ttl()->set_seconds(90);
  v1::PinPrefixResponse pinned;
  ASSERT_TRUE(live_.admin().PinPrefix(&contexts[1], pin, &pinned).ok());
  v1::UnpinPrefixRequest unpin;
  unpin.set_prefix_id("cccccccc");
  v1::UnpinPrefixResponse unpinned;
  ASSERT_TRUE(live_.admin().UnpinPrefix(&contexts[2], unpin, &unpinned).ok());
  EXPECT_THAT(backend_->moves(),
              testing::ElementsAre("get aaaaaaaa", "pin bbbbbbbb for 1m30s",
                                   "unpin cccccccc"));
}

TEST_F(PrefixCallsTest, PinsWithoutATtlAreForever) {
  grpc::ClientContext context;
  v1::PinPrefixRequest pin;
  pin.set_prefix_id("bbbbbbbb");
  v1::PinPrefixResponse pinned;
  ASSERT_TRUE(live_.admin().PinPrefix(&context, pin, &pinned).ok());
  EXPECT_EQ(backend_->moves().back(), "pin bbbbbbbb for inf");
}

TEST_F(PrefixCallsTest, PinRefusalsAreNamed) {
  const auto refused = [this](const v1::PinPrefixRequest& request,
                              grpc::StatusCode code) {
    grpc::ClientContext context;
    v1::PinPrefixResponse answer;
    const grpc::Status status =
        live_.admin().PinPrefix(&context, request, &answer);
    EXPECT_EQ(status.error_code(), code);
    return status.error_message();
  };
  v1::PinPrefixRequest request;
  request.set_retention(v1::RETENTION_HIGH);
  EXPECT_THAT(refused(request, grpc::UNIMPLEMENTED), HasSubstr("retention: "));
  request.clear_retention();
  request.mutable_ttl();
  EXPECT_THAT(refused(request, grpc::INVALID_ARGUMENT), HasSubstr("ttl: "));
  request.clear_ttl();
  backend_->move_status = absl::NotFoundError("no prefix x is cached");
  EXPECT_THAT(refused(request, grpc::NOT_FOUND), HasSubstr("no prefix"));
}

TEST_F(PrefixCallsTest, EvictsByIdsOrFilter) {
  v1::EvictPrefixesRequest request;
  request.mutable_ids()->add_ids("aaaaaaaa");
  request.mutable_ids()->add_ids("bbbbbbbb");
  request.set_dry_run(true);
  v1::EvictPrefixesResponse answer;
  ASSERT_TRUE(Evict(request, answer).ok());
  EXPECT_EQ(answer.evicted_block_count(), 5);
  EXPECT_EQ(answer.freed_bytes(), 8192);
  EXPECT_EQ(answer.kept_block_count(), 2);
  request.set_dry_run(false);
  request.mutable_filter()->set_pinned(true);
  ASSERT_TRUE(Evict(request, answer).ok());
  EXPECT_EQ(backend_->selection().pinned, true);
  EXPECT_THAT(backend_->moves(),
              testing::ElementsAre("try to evict aaaaaaaa,bbbbbbbb", "evict"));
}

// An empty request must not be taken for "everything".
TEST_F(PrefixCallsTest, EvictRefusalsAreNamed) {
  v1::EvictPrefixesRequest request;
  ExpectEvictRefused(request, grpc::INVALID_ARGUMENT, "selection: wanted ids");
  request.mutable_ids();
  ExpectEvictRefused(request, grpc::INVALID_ARGUMENT, "ids.ids: wanted 1 to");
  for (int i = 0; i <= kMaxPrefixIds; ++i) {
    request.mutable_ids()->add_ids("aaaaaaaa");
  }
  ExpectEvictRefused(request, grpc::INVALID_ARGUMENT, "found 1025");
  request.set_model("tiny");
  ExpectEvictRefused(request, grpc::INVALID_ARGUMENT, "model: wanted it empty");
  request.mutable_filter()->set_min_tokens(-5);
  ExpectEvictRefused(request, grpc::INVALID_ARGUMENT, "filter.min_tokens");
  request.add_tiers(v1::CACHE_TIER_DISK);
  ExpectEvictRefused(request, grpc::UNIMPLEMENTED, "tiers: ");
  EXPECT_TRUE(backend_->moves().empty());
}

// A call on its way, for as long as this lives.
template <typename Answer>
struct Pending {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Answer>> reader;
  Answer answer;
  grpc::Status status;

  void Begin() { reader->Finish(&answer, &status, this); }
  void Wait() {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
  }
};

void WaitUntil(const std::atomic<int>& count, int wanted) {
  while (count < wanted) absl::SleepFor(absl::Milliseconds(1));
}

// One thread did all administrative calls, and those behind a walk through a
// big cache waited into their deadlines; and the walk went on after its client
// had gone.
TEST_F(PrefixCallsTest, AWalkHoldsUpNobodyAndEndsWithItsClient) {
  backend_->hold_walks = true;
  Pending<v1::ListPrefixesResponse> list;
  list.reader = live_.admin().AsyncListPrefixes(&list.context, {}, &list.queue);
  list.Begin();
  WaitUntil(backend_->walks_begun, 1);

  grpc::ClientContext context;
  v1::PinPrefixRequest pin;
  pin.set_prefix_id(all_.front().id);
  v1::PinPrefixResponse pinned;
  EXPECT_TRUE(live_.admin().PinPrefix(&context, pin, &pinned).ok());

  list.context.TryCancel();
  list.Wait();
  EXPECT_EQ(list.status.error_code(), grpc::StatusCode::CANCELLED);
  WaitUntil(backend_->walks_given_up, 1);
  backend_->hold_walks = false;
}

// The flush that one had waited for kept all others from their answers.
TEST_F(PrefixCallsTest, AFlushHoldsUpNobodyWhoWaitsToFlush) {
  backend_->hold_walks = true;
  v1::FlushCacheRequest request;
  request.set_scope(v1::FLUSH_SCOPE_SALT);
  request.set_value("s");
  request.mutable_wait()->set_seconds(60);
  Pending<v1::FlushCacheResponse> first;
  first.reader =
      live_.admin().AsyncFlushCache(&first.context, request, &first.queue);
  first.Begin();
  WaitUntil(backend_->walks_begun, 1);

  backend_->busy = true;
  request.mutable_wait()->set_seconds(0);
  request.mutable_wait()->set_nanos(1000000);
  grpc::ClientContext context;
  v1::FlushCacheResponse answer;
  const grpc::Status status =
      live_.admin().FlushCache(&context, request, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION)
      << status.error_message();

  backend_->hold_walks = false;
  first.Wait();
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.answer.freed_blocks(), 3);
}

}  // namespace
}  // namespace kvasir
