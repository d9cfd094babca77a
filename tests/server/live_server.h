#ifndef KVASIR_TESTS_SERVER_LIVE_SERVER_H_
#define KVASIR_TESTS_SERVER_LIVE_SERVER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "kvasir/v1/cache_admin.grpc.pb.h"
#include "kvasir/v1/inference.grpc.pb.h"
#include "server/kvasir_server.h"

namespace kvasir {

// A server in this process on ports of its own, and a client of it.
class LiveServer {
 public:
  static ServerConfig Config() {
    ServerConfig config;
    config.listen = {"127.0.0.1", 0};
    config.metrics_listen = {"127.0.0.1", 0};
    config.max_message_bytes = 64 << 20;
    config.stream_queue_limit = 1 << 20;
    config.drain_timeout = absl::Seconds(30);
    config.stall_timeout = absl::Seconds(30);
    return config;
  }

  explicit LiveServer(const ServerConfig& config = Config()) {
    absl::StatusOr<std::unique_ptr<KvasirServer>> server =
        KvasirServer::Start(config, nullptr);
    if (!server.ok()) ADD_FAILURE() << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->grpc_address().ToString(),
                                   grpc::InsecureChannelCredentials());
    inference_ = v1::Inference::NewStub(channel_);
    admin_ = v1::CacheAdmin::NewStub(channel_);
  }

  KvasirServer& server() { return *server_; }
  void Stop() { server_.reset(); }
  v1::Inference::Stub& inference() { return *inference_; }
  v1::CacheAdmin::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }

  // The whole of a Generate call.
  struct Result {
    grpc::Status status;
    std::vector<v1::GenerateResponse> messages;

    std::string text() const {
      std::string text;
      for (const auto& message : messages) {
        text += message.delta().text() + message.finished().text();
      }
      return text;
    }
    std::vector<uint32_t> ids() const {
      std::vector<uint32_t> ids;
      for (const auto& message : messages) {
        const auto& delta = message.delta().token_ids();
        ids.insert(ids.end(), delta.begin(), delta.end());
        const auto& finished = message.finished().token_ids();
        ids.insert(ids.end(), finished.begin(), finished.end());
      }
      return ids;
    }
    const v1::Finished& finished() const {
      static const auto* const none = new v1::Finished;
      return messages.empty() ? *none : messages.back().finished();
    }
  };
  Result Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    return Generate(context, request);
  }
  Result Generate(grpc::ClientContext& context,
                  const v1::GenerateRequest& request) {
    const auto reader = inference_->Generate(&context, request);
    Result result;
    v1::GenerateResponse message;
    while (reader->Read(&message)) result.messages.push_back(message);
    result.status = reader->Finish();
    return result;
  }

  // How a call that tells how far it is ends, and the last that it tells.
  template <typename Report>
  struct Told {
    grpc::Status status;
    Report last;
  };
  // The call is begun by `start(context)`, which gives its reader.
  template <typename Report, typename Start>
  static Told<Report> ReadToEnd(Start start) {
    grpc::ClientContext context;
    const auto reader = start(&context);
    Told<Report> told;
    while (reader->Read(&told.last)) {
    }
    told.status = reader->Finish();
    return told;
  }

  // How a call of `method`, "kvasir.v1.Inference/Generate" or another, ends
  // whose request is `bytes`.
  grpc::Status CallWithBytes(const std::string& method,
                             const std::string& bytes,
                             const std::string& token = "") {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::Status status;
    const auto call =
        stub.PrepareUnaryCall(&context, "/" + method, request, &queue);
    call->StartCall();
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  v1::CacheStats Stats() {
    grpc::ClientContext context;
    v1::GetCacheStatsResponse answer;
    const grpc::Status status = admin_->GetCacheStats(&context, {}, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer.stats();
  }

 private:
  std::unique_ptr<KvasirServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::CacheAdmin::Stub> admin_;
};

// Polls until `condition` holds; false if it never does. What a test waits for
// happens on other threads at their own pace, so it never waits for a time.
template <typename Condition>
bool Eventually(const Condition& condition) {
  constexpr int kTries = 3000;
  for (int i = 0; i < kTries; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

// The reason in the status's ErrorInfo; empty if there is none.
inline std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status wire;
  wire.ParseFromString(status.error_details());
  for (const auto& detail : wire.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_LIVE_SERVER_H_
