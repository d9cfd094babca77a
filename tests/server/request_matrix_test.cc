// Every field of a Generate request with every kind of value, on a server with
// a real engine: an answer, or a refusal by the field's name.

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/generation_backend.h"
#include "server/status_reason.h"
#include "tests/server/live_server.h"
#include "tests/server/request_variants.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr int kContext = 96;

// What a refusal may be about instead: the field is a part of it.
const std::multimap<std::string, std::string>& AlsoAbout() {
  static const auto* const names = new std::multimap<std::string, std::string>{
      {"text", "prompt"},
      {"token_ids", "prompt"},
      {"token_ids.ids", "prompt"},
      {"chat", "prompt"},
      {"chat.messages", "prompt"},
      {"chat.messages.content", "prompt"},
      {"chat.messages.role", "prompt"},
      // Both halves of a time.
      {"max_time.seconds", "max_time"},
      {"max_time.nanos", "max_time"},
      {"cache.ttl.seconds", "cache.ttl"},
      {"cache.ttl.nanos", "cache.ttl"}};
  return *names;
}

bool IsOrIsInside(const std::string& path, const std::string& outer) {
  return path == outer || absl::StartsWith(path, outer + ".");
}

// "chat.messages[3].role" without the "[3]".
std::string WithoutPlaces(std::string path) {
  while (true) {
    const size_t open = path.find('[');
    if (open == std::string::npos) return path;
    path.erase(open, path.find(']', open) - open + 1);
  }
}

// Whether an error about `named` is one about `path`. The name may be of a
// message that holds the field: one that is refused as a whole, or that has too
// many parts.
bool IsAbout(const std::string& named, const std::string& path) {
  if (named.empty()) return false;
  if (IsOrIsInside(path, named) || IsOrIsInside(named, path)) return true;
  const auto [first, last] = AlsoAbout().equal_range(path);
  return std::any_of(first, last,
                     [&](const auto& entry) { return entry.second == named; });
}

class RequestMatrixTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_name = "tiny";
    options.model_path = TempPath("request_matrix_tiny.gguf");
    ASSERT_TRUE(WriteTinyModel({}, options.model_path).ok());
    options.context_limit = kContext;
    options.cache_blocks = 512;
    options.thread_count = 1;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  static v1::GenerateRequest Base() {
    v1::GenerateRequest request;
    request.set_text("The old harbour");
    request.set_stream(true);
    request.mutable_stopping()->set_max_tokens(2);
    request.mutable_sampling()->set_seed(1);
    return request;
  }

  void Check(const RequestVariant& variant) {
    SCOPED_TRACE(absl::StrCat(variant.path, " = ", variant.value));
    const LiveServer::Result result = live_->Generate(variant.request);
    const grpc::Status& status = result.status;
    ++outcomes_[status.error_code()];
    if (status.ok()) {
      ++answers_[variant.path];
      EXPECT_TRUE(result.messages.back().has_finished());
      return;
    }
    const absl::Status told(static_cast<absl::StatusCode>(status.error_code()),
                            status.error_message());
    const std::string named = WithoutPlaces(FieldIn(told));
    switch (status.error_code()) {
      case grpc::INVALID_ARGUMENT:
        break;
      case grpc::UNIMPLEMENTED:
        EXPECT_TRUE(IsNotThereYet(variant.path)) << status.error_message();
        break;
      case grpc::NOT_FOUND:
        EXPECT_THAT(variant.path, testing::AnyOf("model", "cache.version"))
            << status.error_message();
        return;  // names the thing, not the field
      default:
        ADD_FAILURE() << status.error_code() << ": " << status.error_message();
    }
    EXPECT_TRUE(IsAbout(named, variant.path)) << status.error_message();
  }

  std::unique_ptr<LiveServer> live_;
  std::map<grpc::StatusCode, int> outcomes_;
  std::map<std::string, int> answers_;  // by path
};

// Nothing crashes, hangs or is refused without a name, and what only forgot to
// be checked would show here first.
TEST_F(RequestMatrixTest, EveryValueIsServedOrRefusedByName) {
  // Which would complain of each text that is no UTF-8.
  auto* const log = google::protobuf::SetLogHandler(nullptr);
  ASSERT_TRUE(live_->Generate(Base()).status.ok());
  std::set<std::string> paths;
  ForEachVariant(Base(), PrepareVariant, [&](const RequestVariant& variant) {
    if (!variant.empty) paths.insert(variant.path);
    Check(variant);
  });
  google::protobuf::SetLogHandler(log);
  EXPECT_GT(paths.size(), 80u);
  EXPECT_GT(outcomes_[grpc::OK], 150);
  EXPECT_GT(outcomes_[grpc::INVALID_ARGUMENT], 100);
  for (const std::string& path : paths) {
    if (IsNotThereYet(path)) continue;
    EXPECT_GT(answers_[path], 0) << path << ": no value of it is served";
  }
  EXPECT_TRUE(live_->Generate(Base()).status.ok());
  EXPECT_TRUE(Eventually([this] {
    const v1::CacheStats stats = live_->Stats();
    return stats.running_count() == 0 && stats.tiers(0).pinned_blocks() == 0;
  }));
}

}  // namespace
}  // namespace kvasir
