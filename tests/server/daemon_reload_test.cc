// kvasird as a process over its life: configurations that change, managers that
// want to know, and the first process of a container.

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "httplib.h"
#include "tests/server/daemon_process.h"
#include "tests/server/test_certificates.h"
#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kToken[] = "planted-planted-planted";

class DaemonReloadTest : public DaemonTest {
 protected:
  static std::string WriteTokens(const std::string& token) {
    const std::string path = TempPath("reload_tokens.yaml");
    std::ofstream(path + ".new") << "tokens:\n- {tenant: acme, scopes: "
                                    "[inference, admin], token: "
                                 << token << "}\n";
    EXPECT_EQ(chmod((path + ".new").c_str(), 0600), 0);
    EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
    return path;
  }

  // The arguments with this file in place of none.
  std::vector<std::string> WithFile(const std::string& path) {
    std::vector<std::string> arguments = Arguments();
    arguments.back() = "--config=" + path;
    return arguments;
  }

  static std::string Metrics(const Process& daemon) {
    const std::string address =
        Field(daemon.WaitForLine("kvasird is ready"), "metrics");
    const auto result = httplib::Client("http://" + address).Get("/metrics");
    return result ? result->body : "no answer";
  }

  static bool Serves(const Process& daemon, const std::string& token) {
    const auto stub = ClientOf(daemon);
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    v1::GetServerStatusResponse answer;
    return stub->GetServerStatus(&context, {}, &answer).ok();
  }
};

TEST_F(DaemonReloadTest, HangupTakesOverWhatItMayAndNamesTheRest) {
  const std::string tokens = WriteTokens(kToken);
  const std::string file = TempPath("reload_good.yaml");
  const std::string always = "auth: {token_file: " + tokens + "}\n";
  ReplaceFile(file, always);
  Process daemon(WithFile(file));
  EXPECT_TRUE(Serves(daemon, kToken));
  EXPECT_THAT(Metrics(daemon),
              HasSubstr("kvasir_config_reloads_total{result=\"ok\"} 0\n"));
  WriteTokens("another-another-another");
  const std::string warm = TempPath("reload_warm.yaml");
  ReplaceFile(warm, "prefixes:\n- text: " + std::string(400, 'a') + "\n");
  ReplaceFile(file, absl::StrCat(always,
                                 "log: {format: json}\n"
                                 "cache: {tenant_quotas: acme=10%, warm_file: ",
                                 warm,
                                 "}\n"
                                 "engine: {token_budget: 128}\n"));
  daemon.Signal(SIGHUP);
  daemon.WaitForLine("\"the configuration is in force\"");
  EXPECT_THAT(daemon.WaitForLine("a changed option needs a restart"),
              HasSubstr("--token-budget"));
  daemon.WaitForLine("the cache is warm");
  EXPECT_TRUE(Serves(daemon, "another-another-another"));
  EXPECT_FALSE(Serves(daemon, kToken));
  EXPECT_THAT(Metrics(daemon),
              HasSubstr("kvasir_config_reloads_total{result=\"ok\"} 1\n"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

// All of it or nothing: what is in order in a faulty file must not apply.
TEST_F(DaemonReloadTest, HangupWithAFaultChangesNothing) {
  const std::string file = TempPath("reload_bad.yaml");
  ReplaceFile(file, "log: {format: text}\n");
  Process daemon(WithFile(file));
  daemon.WaitForLine("kvasird is ready");
  int faults = 0;
  for (const char* fault :
       {"cache: {tenant_quotas: nonsense}\n", "engine: {token_budget: x}\n",
        "nonsense: {a: 1}\n", "cache: {tenant_quotas: acme=90%}\n",
        "cache: {warm_file: /nowhere.yaml}\n"}) {
    ReplaceFile(file, absl::StrCat("log: {format: json}\n", fault));
    daemon.Signal(SIGHUP);
    ++faults;
    EXPECT_TRUE(Eventually([&] {
      return Metrics(daemon).find(
                 absl::StrCat("kvasir_config_reloads_total{result=\"error\"} ",
                              faults, "\n")) != std::string::npos;
    })) << daemon.log();
  }
  EXPECT_THAT(daemon.log(), HasSubstr("the old one stays reason="));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("\"level\"")));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

// Nothing that the daemon says may tell a token or a key.
TEST_F(DaemonReloadTest, SecretsAreNowhere) {
  const TestCertificate identity({});
  const std::string key = TempPath("reload_key.pem");
  const std::string cert = TempPath("reload_cert.pem");
  ReplaceFile(key, identity.key_pem());
  ReplaceFile(cert, identity.pem());
  const std::string tokens = WriteTokens(kToken);
  const std::string key_line = identity.key_pem().substr(30, 40);
  const std::vector<std::string> arguments =
      Arguments({"--token-file=" + tokens, "--tls-cert=" + cert,
                 "--tls-key=" + key, "--log-level=debug"});
  std::string said;
  std::vector<std::string> printing = arguments;
  printing.push_back("--print-config");
  Process printer(printing);
  EXPECT_EQ(printer.Wait(), 0);
  said += printer.log();
  EXPECT_THAT(said, HasSubstr(tokens)) << "names of files are no secrets";
  Process daemon(arguments);
  said += Metrics(daemon);
  WriteTokens(absl::StrCat(kToken, " ", kToken));
  daemon.WaitForLine("new tokens are not in order");
  ReplaceFile(key, identity.key_pem().substr(0, 100));
  daemon.WaitForLine("new certificates are not in order");
  daemon.Signal(SIGHUP);
  daemon.WaitForLine("the configuration is not in order");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
  said += daemon.log();
  Process refused(arguments);
  EXPECT_EQ(refused.Wait(), 1);
  said += refused.log();
  EXPECT_THAT(refused.log(), HasSubstr("--tls-key: " + key));
  EXPECT_THAT(said, Not(HasSubstr("planted-planted")));
  EXPECT_THAT(said, Not(HasSubstr(key_line)));
}

// A tenant's salt, without tokens its name, is what keeps its content its own.
TEST_F(DaemonReloadTest, SaltsAreNowhere) {
  const std::string file = TempPath("reload_salts.yaml");
  std::string said;
  for (const char* fault : {"cache: {tenant_quotas: planted}\n",
                            "cache: {tenant_quotas: planted=}\n",
                            "cache: {tenant_quotas: 'planted=4:2'}\n",
                            "cache: {tenant_quotas: [planted=1, planted=2]}\n",
                            "cache: {tenant_quotas: planted=90%}\n",
                            "server: {tenant_limits: planted}\n",
                            "server: {tenant_limits: 'planted=requests:x'}\n",
                            "server: {tenant_limits: ['planted=requests:1', "
                            "'planted=requests:2']}\n"}) {
    ReplaceFile(file, fault);
    Process refused(WithFile(file));
    EXPECT_NE(refused.Wait(), 0) << fault;
    said += refused.log();
  }
  ReplaceFile(file, "");
  Process daemon(WithFile(file));
  daemon.WaitForLine("kvasird is ready");
  ReplaceFile(file, "cache: {tenant_quotas: planted=90%}\n");
  daemon.Signal(SIGHUP);
  EXPECT_THAT(daemon.WaitForLine("the old one stays"),
              HasSubstr("--tenant-quota: salt_hash "));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
  said += daemon.log();
  EXPECT_THAT(said, Not(HasSubstr("planted")));
}

TEST_F(DaemonReloadTest, DrainDelayTakesRequestsThatHealthSendsElsewhere) {
  Process daemon(Arguments({"--drain-delay=10m"}));
  const std::string address =
      Field(daemon.WaitForLine("kvasird is ready"), "grpc");
  const auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const auto health = grpc::health::v1::Health::NewStub(channel);
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse answer;
    return health->Check(&context, {}, &answer).ok() &&
           answer.status() ==
               grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  }));
  grpc::ClientContext alive;
  grpc::health::v1::HealthCheckRequest liveness;
  liveness.set_service("liveness");
  grpc::health::v1::HealthCheckResponse answer;
  ASSERT_TRUE(health->Check(&alive, liveness, &answer).ok());
  EXPECT_EQ(answer.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  const auto stub = v1::Inference::NewStub(channel);
  v1::GenerateRequest request;
  request.set_text("The old");
  request.mutable_stopping()->set_max_tokens(2);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  // A hangup is no second wish to end.
  daemon.Signal(SIGHUP);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 128 + SIGTERM) << daemon.log();
}

// A service manager in this process.
class NotifySocket {
 public:
  NotifySocket()
      : name_(absl::StrCat("@kvasir_daemon_", getpid())),
        fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                          name_.size())),
              0);
  }
  ~NotifySocket() { close(fd_); }

  const std::string& name() const { return name_; }

  // Drops what has come; how many datagrams that was.
  int Drop() {
    char text[4096];
    int count = 0;
    while (recv(fd_, text, sizeof(text), 0) > 0) ++count;
    return count;
  }

  // Whether a datagram that begins so comes; those before it are dropped.
  bool Comes(const std::string& begin) {
    return Eventually([&] {
      char text[4096];
      ssize_t size = 0;
      while ((size = recv(fd_, text, sizeof(text), 0)) > 0) {
        if (std::string(text, static_cast<size_t>(size)).rfind(begin, 0) == 0) {
          return true;
        }
      }
      return false;
    });
  }

 private:
  const std::string name_;
  const int fd_;
};

TEST_F(DaemonReloadTest, ManagerIsToldOfEachChange) {
  NotifySocket manager;
  Process daemon(Arguments(),
                 {"NOTIFY_SOCKET=" + manager.name(), "WATCHDOG_USEC=200000"});
  EXPECT_TRUE(manager.Comes("STATUS=loading the model\n"));
  EXPECT_TRUE(
      manager.Comes("READY=1\nSTATUS=serving daemon_tiny on 127.0.0.1"));
  EXPECT_TRUE(manager.Comes("WATCHDOG=1\n"));
  EXPECT_TRUE(manager.Comes("WATCHDOG=1\n"));
  daemon.Signal(SIGHUP);
  EXPECT_TRUE(manager.Comes("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_TRUE(manager.Comes("READY=1\n"));
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(manager.Comes("STOPPING=1\n"));
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}

#if KVASIR_TEST_HOOKS
// A manager restarts whoever gives no signs of life; an engine that has work
// and does nothing is dead, though other threads are not.
TEST_F(DaemonReloadTest, StalledEngineGivesNoSignOfLife) {
  NotifySocket manager;
  Process daemon(Arguments({"--test-step-delay=10m", "--stall-timeout=100ms"}),
                 {"NOTIFY_SOCKET=" + manager.name(), "WATCHDOG_USEC=20000"});
  const std::string address =
      Field(daemon.WaitForLine("kvasird is ready"), "grpc");
  EXPECT_TRUE(manager.Comes("WATCHDOG=1\n"));
  const auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const auto stub = v1::Inference::NewStub(channel);
  v1::GenerateRequest request;
  request.set_text("The old");
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  daemon.WaitForLine("the engine has work and finishes no step");
  const auto health = grpc::health::v1::Health::NewStub(channel);
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext probe;
    grpc::health::v1::HealthCheckResponse answer;
    return health->Check(&probe, {}, &answer).ok() &&
           answer.status() ==
               grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  }));
  manager.Drop();
  // Ten times as long as the manager waits for one.
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(manager.Drop(), 0);
  context.TryCancel();
}
#endif

#if KVASIR_TEST_HOOKS
// What only the engine can do a step that hangs keeps from being done; the
// operator is told so, nothing of the file applies, now or later, and the
// daemon still obeys.
class HungStepTest : public DaemonReloadTest {
 protected:
  // A daemon whose engine is in a step that does not end.
  std::unique_ptr<Process> Hang(const std::string& file,
                                const std::string& more) {
    std::vector<std::string> arguments = WithFile(file);
    arguments.insert(arguments.end(),
                     {"--test-step-delay=10m", "--drain-timeout=10m", more});
    auto daemon = std::make_unique<Process>(arguments);
    stub_ = ClientOf(*daemon);
    v1::GenerateRequest request;
    request.set_text("The old");
    reader_ = stub_->Generate(&context_, request);
    EXPECT_TRUE(Eventually([&] {
      return Metrics(*daemon).find(
                 "kvasir_requests_running{model_name=\""
                 "daemon_tiny\"} 1\n") != std::string::npos;
    }));
    return daemon;
  }

  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

TEST_F(HungStepTest, ReloadEndsAtItsLimitAndChangesNothing) {
  const std::string file = TempPath("reload_hung.yaml");
  ReplaceFile(file, "");
  const auto daemon = Hang(file, "--reload-timeout=200ms");
  ReplaceFile(file, "log: {format: json}\ncache: {tenant_quotas: acme=10%}\n");
  daemon->Signal(SIGHUP);
  const std::string line = daemon->WaitForLine("cannot be taken over");
  EXPECT_THAT(line, HasSubstr("server.reload_timeout"));
  EXPECT_THAT(line, HasSubstr("--tenant-quota"));
  EXPECT_THAT(daemon->log(), Not(HasSubstr("\"level\"")));
  // What needs no engine is taken over all the same.
  ReplaceFile(file, "log: {format: json}\n");
  daemon->Signal(SIGHUP);
  daemon->WaitForLine("\"the configuration is in force\"");
  context_.TryCancel();
}

TEST_F(HungStepTest, SignalsToEndAreObeyedAmidAReload) {
  const std::string file = TempPath("reload_hung_end.yaml");
  ReplaceFile(file, "");
  const auto daemon = Hang(file, "--reload-timeout=10m");
  ReplaceFile(file, "cache: {tenant_quotas: acme=10%}\n");
  daemon->Signal(SIGHUP);
  daemon->WaitForLine("reading the configuration again");
  daemon->Signal(SIGTERM);
  EXPECT_THAT(daemon->WaitForLine("cannot be taken over"),
              HasSubstr("found a signal to end"));
  daemon->WaitForLine("draining");
  daemon->Signal(SIGTERM);
  EXPECT_EQ(daemon->Wait(), 128 + SIGTERM) << daemon->log();
  context_.TryCancel();
}
#endif

// SRV-1 as the first process: signals with their default action do nothing
// there, and nobody else would reap.
TEST_F(DaemonReloadTest, FirstProcessOfAContainerObeysSignals) {
  const char* const kUnshare = "/usr/bin/unshare";
  if (access(kUnshare, X_OK) != 0) GTEST_SKIP() << "no unshare here";
  Process probe(kUnshare, {"--pid", "--fork", "--mount-proc", "/bin/true"}, {});
  if (probe.Wait() != 0) {
    GTEST_SKIP() << "no PID namespace to be had here: " << probe.log();
  }
  for (const int signal : {SIGTERM, SIGINT}) {
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.begin(),
                     {"--pid", "--fork", "--mount-proc", DaemonPath()});
    Process daemon(kUnshare, arguments, {});
    daemon.WaitForLine("kvasird is ready");
    const std::string child = daemon.Child();
    ASSERT_NE(child, "");
    std::ifstream status("/proc/" + child + "/status");
    const std::string text{std::istreambuf_iterator<char>(status),
                           std::istreambuf_iterator<char>()};
    EXPECT_THAT(text, HasSubstr("\t1\n")) << "NSpid";
    kill(std::stoi(child), signal);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
    EXPECT_THAT(daemon.log(), HasSubstr("stopped"));
  }
}

#if KVASIR_TEST_HOOKS
// A hangup while the model loads must neither end the daemon nor get lost.
TEST_F(DaemonReloadTest, HangupWhileLoadingIsDoneAfterwards) {
  const std::string file = TempPath("reload_loading.yaml");
  ReplaceFile(file, "");
  std::vector<std::string> arguments = WithFile(file);
  arguments.push_back("--test-load-delay=1s");
  Process daemon(arguments);
  daemon.WaitForLine("loading the model");
  ReplaceFile(file, "log: {format: json}\n");
  daemon.Signal(SIGHUP);
  daemon.WaitForLine("\"the configuration is in force\"");
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.log();
}
#endif

}  // namespace
}  // namespace kvasir
