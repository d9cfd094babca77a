// WarmCache calls that wait for each other, to a live server whose engine is a
// stand-in.

#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

// Of a call that takes its time to be tokenised.
constexpr int kManyPrompts = 4000;

v1::WarmCacheRequest ManyWords(const std::string& version) {
  v1::WarmCacheRequest request;
  request.set_version(version);
  std::string text;
  while (text.size() < 2500) text += "word after word, ";
  for (int i = 0; i < kManyPrompts; ++i) request.add_prompts()->set_text(text);
  return request;
}

class WarmCallTest : public testing::Test {
 protected:
  WarmCallTest() {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_.server().Serve(std::move(backend));
  }

  LiveServer live_;
  FakeBackend* backend_ = nullptr;
};

// It was bound to the version, and kept its weights, from when it came.
TEST_F(WarmCallTest, ACallThatWaitsGetsTheVersionOfItsTurn) {
  backend_->AddVersion("next", VersionState::kServing);
  grpc::ClientContext busy;
  const auto first = live_.admin().WarmCache(&busy, ManyWords(""));
  v1::WarmCacheResponse report;
  ASSERT_TRUE(first->Read(&report)) << "it is at work";

  v1::WarmCacheRequest request;
  request.add_prompts()->set_text("hello, this is a prompt of its own");
  grpc::ClientContext waiting;
  const auto second = live_.admin().WarmCache(&waiting, request);
  grpc::ClientContext unknown;
  request.set_version("nobody");
  EXPECT_EQ(live_.admin().WarmCache(&unknown, request)->Finish().error_code(),
            grpc::NOT_FOUND)
      << "what is wrong already is told at once";
  backend_->ActivateLastVersion();
  busy.TryCancel();
  while (first->Read(&report)) {
  }
  EXPECT_EQ(first->Finish().error_code(), grpc::CANCELLED);
  while (backend_->warm().version == nullptr) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const WarmOrder order = backend_->warm();
  EXPECT_EQ(order.version->label(), "next");
  order.sink->OnEnd(absl::OkStatus(), {});
  while (second->Read(&report)) {
  }
  EXPECT_TRUE(second->Finish().ok());
  backend_->DropWarm();
}

// Minutes of text were tokenised for a version that nobody could get any more,
// and that could not retire meanwhile.
TEST_F(WarmCallTest, TokenisingEndsWithTheVersion) {
  backend_->AddVersion("old", VersionState::kServing);
  grpc::ClientContext context;
  const auto reader = live_.admin().WarmCache(&context, ManyWords("old"));
  v1::WarmCacheResponse report;
  ASSERT_TRUE(reader->Read(&report));
  backend_->RetireLastVersion();
  while (reader->Read(&report)) {
  }
  const grpc::Status ended = reader->Finish();
  EXPECT_EQ(ended.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(ended.error_message(), HasSubstr("\"old\" has been deleted"));
  EXPECT_EQ(backend_->warm().version, nullptr);
}

}  // namespace
}  // namespace kvasir
