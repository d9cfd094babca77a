// kvasird as a process: exit codes, signals, and the one line that says why.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "kvasir/v1/inference.grpc.pb.h"
#include "tests/server/daemon_process.h"
#include "tests/server/fake_system.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

// Whoever starts a model that cannot chat hears of it then, not from a client.
TEST_F(DaemonTest, ModelThatCannotChatIsSaidInTheLog) {
  GgufWriter writer = MakeTinyModel();
  writer.SetString("tokenizer.chat_template", "{% foo %}");
  ASSERT_TRUE(writer.Write(model_).ok());
  Process daemon(Arguments());
  const std::string line = daemon.WaitForLine("chat requests will be refused");
  EXPECT_NE(line.find("tokenizer.chat_template"), std::string::npos) << line;
  daemon.WaitForLine("kvasird is ready");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

// SRV-1 (b), SRV-3: port 0 is told, and each signal ends it cleanly.
TEST_F(DaemonTest, IdleDaemonEndsWithZeroOnAnySignal) {
  for (const auto& [signal, name] :
       {std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGINT, "SIGINT"}}) {
    Process daemon(Arguments());
    const std::string ready = daemon.WaitForLine("kvasird is ready");
    EXPECT_NE(Field(ready, "grpc"), "127.0.0.1:0");
    EXPECT_NE(Field(ready, "metrics"), "127.0.0.1:0");
    EXPECT_EQ(Field(ready, "model"), "daemon_tiny");
    EXPECT_EQ(Field(ready, "threads"), "1");
    daemon.Signal(signal);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
    EXPECT_THAT(daemon.log(), HasSubstr(std::string("signal=") + name));
  }
}

// Traffic must not come before the cache is warm; nor never, if it gets there
// too late.
TEST_F(DaemonTest, ReadyWhenItsFileIsWarmOrTheDeadlineIsOver) {
  const std::string file = TempPath("daemon_warm.yaml");
  std::ofstream(file) << "prefixes:\n- text: " << std::string(400, 'a')
                      << "\n- token_ids: [999999]\n";
  Process daemon(Arguments({"--warm-file=" + file}));
  daemon.WaitForLine("kvasird is ready");
  EXPECT_THAT(daemon.log(), HasSubstr("a prefix cannot be warmed line=3"));
  EXPECT_THAT(daemon.log(), HasSubstr("refused=1"));
  EXPECT_LT(daemon.log().find("refused=1"),
            daemon.log().find("kvasird is ready"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();

  std::ofstream(file) << "prefixes:\n- text: " << std::string(4000, 'a')
                      << "\n";
  Process late(Arguments(
      {"--warm-file=" + file, "--warm-deadline=0", "--prefill-chunk=1"}));
  late.WaitForLine("kvasird is ready");
  EXPECT_THAT(late.log(), HasSubstr("not done by its deadline"));
  late.Signal(SIGTERM);
  EXPECT_EQ(late.Wait(), 0) << late.log();
}

TEST_F(DaemonTest, AFaultyWarmFileIsToldBeforeTheModelLoads) {
  const std::string file = TempPath("daemon_faulty.yaml");
  std::ofstream(file) << "prefixes:\n- txt: hello\n";
  Process daemon(Arguments({"--warm-file=" + file}));
  EXPECT_EQ(daemon.Wait(), 2) << "as for any other option";
  EXPECT_THAT(daemon.log(), HasSubstr("--warm-file: " + file + ":2: unknown"));
  EXPECT_EQ(daemon.log().find("loading the model"), std::string::npos);
}

// SRV-1 (c): the stream goes on, new calls do not.
TEST_F(DaemonTest, RunningStreamOutlivesTheFirstSignal) {
  Process daemon(Arguments());
  const auto stub = ClientOf(daemon);
  v1::GenerateRequest request;
  request.set_text("The old");
  request.set_stream(true);
  request.mutable_stopping()->set_max_tokens(3000);
  request.mutable_stopping()->set_ignore_eos(true);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  daemon.Signal(SIGTERM);
  daemon.WaitForLine("draining");
  grpc::ClientContext other_context;
  const auto other = stub->Generate(&other_context, request);
  v1::GenerateResponse nothing;
  EXPECT_FALSE(other->Read(&nothing));
  EXPECT_EQ(other->Finish().error_code(), grpc::UNAVAILABLE);
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(message.has_finished());
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

TEST_F(DaemonTest, SecondSignalEndsItAtOnce) {
  // A client that reads nothing keeps the drain waiting.
  Process daemon(Arguments({"--drain-timeout=10m", "--stream-queue=1048576"}));
  const auto stub = ClientOf(daemon);
  v1::GenerateRequest request;
  request.set_text("The old");
  request.set_stream(true);
  request.mutable_stopping()->set_ignore_eos(true);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  daemon.Signal(SIGTERM);
  daemon.WaitForLine("draining");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 128 + SIGTERM) << daemon.log();
  context.TryCancel();
}

// SRV-3: the second daemon says which port it cannot have; the first serves on.
TEST_F(DaemonTest, TakenPortsAreFatalAndNamed) {
  Process first(Arguments());
  const std::string ready = first.WaitForLine("kvasird is ready");
  for (const std::string key : {"grpc", "metrics"}) {
    const std::string address = Field(ready, key);
    Process second(Arguments({absl::StrCat(
        key == "grpc" ? "--listen=" : "--metrics-listen=", address)}));
    EXPECT_EQ(second.Wait(), 2) << "given twice: a usage error";
    std::vector<std::string> arguments = Arguments();
    arguments[key == "grpc" ? 1 : 2] = absl::StrCat(
        key == "grpc" ? "--listen=" : "--metrics-listen=", address);
    Process third(arguments);
    EXPECT_EQ(third.Wait(), 1);
    EXPECT_THAT(third.log(), HasSubstr("is taken"));
    EXPECT_THAT(third.log(), HasSubstr(address));
    const std::string log = third.log();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  }
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0);
}

TEST_F(DaemonTest, MissingAndMalformedModelsAreFatalAndNamed) {
  std::vector<std::string> arguments = Arguments();
  arguments[0] = "--model=/nowhere/model.gguf";
  Process missing(arguments);
  EXPECT_EQ(missing.Wait(), 1);
  EXPECT_THAT(missing.log(), HasSubstr("/nowhere/model.gguf"));
  const std::string broken = TempPath("broken.gguf");
  std::ofstream(broken) << "GGUF but no more";
  arguments[0] = "--model=" + broken;
  Process malformed(arguments);
  EXPECT_EQ(malformed.Wait(), 1);
  EXPECT_THAT(malformed.log(), HasSubstr("broken.gguf"));
}

// Ready means: whatever model a client names.
TEST_F(DaemonTest, SeveralModelsAreServedOrNone) {
  const std::string second = TempPath("daemon_second.gguf");
  ASSERT_TRUE(WriteTinyModel({.seed = 2}, second).ok());
  std::vector<std::string> arguments = Arguments({"--model=b=" + second});
  arguments[0] = "--model=a=" + model_;
  Process daemon(arguments);
  const std::string ready = daemon.WaitForLine("kvasird is ready");
  EXPECT_EQ(Field(ready, "model"), "a,b");
  const auto stub = ClientOf(daemon);
  std::vector<std::string> texts;
  for (const char* model : {"a", "b"}) {
    v1::GenerateRequest request;
    request.set_model(model);
    request.set_text("What is a cat?");
    request.mutable_stopping()->set_max_tokens(8);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(0);
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, request);
    v1::GenerateResponse message;
    std::string text;
    while (reader->Read(&message)) {
      text += message.delta().text() + message.finished().text();
    }
    EXPECT_TRUE(reader->Finish().ok());
    texts.push_back(text);
  }
  EXPECT_NE(texts[0], texts[1]);
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub->ListModels(&context, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 2);
  EXPECT_EQ(models.models(0).name(), "a");
  EXPECT_EQ(models.models(1).name(), "b");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  ASSERT_TRUE(WriteTinyModel({.layer_count = 3}, second).ok());
  Process other(arguments);
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.log(), HasSubstr("--model: \\\"b\\\": wanted a model whose "
                                     "cache blocks have the shape"));
}

TEST_F(DaemonTest, UsageErrorsAreTwoAndOneLine) {
  Process daemon({"--cache-size=512", "--model=x"});
  EXPECT_EQ(daemon.Wait(), 2);
  const std::string log = daemon.log();
  EXPECT_THAT(log, HasSubstr("--cache-size"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

// A file of prompts is not tokenised by whoever reads the signals.
TEST_F(DaemonTest, SignalWhileTheWarmFileIsTokenisedEndsItAtOnce) {
  const std::string file = TempPath("daemon_words.yaml");
  {
    std::ofstream words(file);
    words << "prefixes:\n";
    std::string text;
    while (text.size() < 4000) text += "word after word ";
    for (int i = 0; i < 1000; ++i) words << "- text: " << text << "\n";
    words << "- token_ids: [999999]\n";
  }
  Process daemon(Arguments({"--warm-file=" + file}));
  daemon.WaitForLine("warming the cache");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("draining"));
  EXPECT_THAT(daemon.log(), testing::Not(HasSubstr("line=1002 ")))
      << "the last prompt was looked at";
}

#if KVASIR_TEST_HOOKS
// SRV-1 (a): a model of hundreds of gigabytes loads for minutes.
TEST_F(DaemonTest, SignalWhileLoadingEndsItWithZero) {
  Process daemon(Arguments({"--test-load-delay=10m"}));
  const std::string loading = daemon.WaitForLine("loading the model");
  const auto stub = v1::Inference::NewStub(grpc::CreateChannel(
      Field(loading, "grpc"), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetServerStatusResponse answer;
  ASSERT_TRUE(stub->GetServerStatus(&context, {}, &answer).ok());
  EXPECT_EQ(answer.state(), v1::SERVER_STATE_LOADING);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

// RES-1 and the daemon's whole way: the tree is made up, the rest is not.
TEST_F(DaemonTest, TheMemoryLimitSizesTheCacheAtStartAndLater) {
  FakeSystem system;
  system.SetGroup("209715200", 0, 150 * kMebi);
  std::vector<std::string> arguments =
      Arguments({"--test-system-root=" + system.root()});
  std::vector<std::string> chosen = arguments;
  chosen[4] = "--cache-size=auto";
  chosen[5] = "--cache-auto-resize=true";
  Process daemon(chosen);
  const std::string sized = daemon.WaitForLine("the cache is sized");
  EXPECT_THAT(sized, HasSubstr("by=auto"));
  EXPECT_THAT(sized,
              HasSubstr("200 MiB (cgroup /sys/fs/cgroup/app/memory.max)"));
  daemon.WaitForLine("kvasird is ready");
  system.SetGroup("104857600", 0);
  daemon.WaitForLine("the cache has changed its size");
  // A second revision is weights, too; with 33 MiB nothing is left for it.
  system.SetGroup("34603008", 0);
  const auto admin = v1::CacheAdmin::NewStub(
      grpc::CreateChannel(Field(daemon.WaitForLine("kvasird is ready"), "grpc"),
                          grpc::InsecureChannelCredentials()));
  const std::string second = TempPath("daemon_second.gguf");
  ASSERT_TRUE(WriteTinyModel({.seed = 2}, second).ok());
  v1::CreateCacheVersionRequest create;
  create.set_label("two");
  create.set_model_path(second);
  grpc::ClientContext context;
  const auto reader = admin->CreateCacheVersion(&context, create);
  v1::CreateCacheVersionResponse report;
  while (reader->Read(&report)) {
  }
  const grpc::Status no_weights = reader->Finish();
  system.SetGroup("104857600", 0);
  EXPECT_EQ(no_weights.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(no_weights.error_message(), HasSubstr("for its weights, found"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();

  std::vector<std::string> too_large = arguments;
  too_large[4] = "--cache-size=101MiB";
  Process refused(too_large);
  EXPECT_EQ(refused.Wait(), 2);
  EXPECT_THAT(refused.log(),
              HasSubstr("--cache-size: wanted at most the memory limit of 100 "
                        "MiB, found \"101MiB\""));
  too_large[4] = "--cache-size=100MiB";
  Process no_room(too_large);
  EXPECT_EQ(no_room.Wait(), 1);
  EXPECT_THAT(no_room.log(), HasSubstr("--cache-size: wanted at most"));
  EXPECT_THAT(no_room.log(), HasSubstr("of weights), found 100 MiB"));
}

// An engine whose steps fail and fail serves nobody: it says so and goes, so
// that something may start it again.
TEST_F(DaemonTest, BrokenEngineEndsTheDaemonWithOne) {
  Process daemon(
      Arguments({"--test-failing-step=1", "--test-failing-steps=1000"}));
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(Field(daemon.WaitForLine("kvasird is ready"), "grpc"),
                          grpc::InsecureChannelCredentials()));
  // Each call meets one failing step, until the engine gives up.
  for (int i = 0; i < 20; ++i) {
    v1::GenerateRequest request;
    request.set_text("x");
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, request);
    v1::GenerateResponse message;
    EXPECT_FALSE(reader->Read(&message));
    if (reader->Finish().error_code() == grpc::UNAVAILABLE) break;
  }
  EXPECT_EQ(daemon.Wait(), 1) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("broken"));
}
#endif

}  // namespace
}  // namespace kvasir
