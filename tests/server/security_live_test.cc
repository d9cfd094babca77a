// Who may call the server, and how connections are made: over the wire, with a
// real engine on the model TINY.

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "httplib.h"
#include "server/call_stats.h"
#include "server/generation_backend.h"
#include "tests/server/live_server.h"
#include "tests/server/test_certificates.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kAcme[] = "acme-acme-acme-acme";
constexpr char kOther[] = "other-other-other-other";
constexpr char kOperator[] = "operator-operator-operator";
constexpr char kNobody[] = "nobody-nobody-nobody-nobody";

std::string TokenText(const std::string& acme) {
  return absl::StrCat(
      "tokens:\n- {tenant: acme, scopes: [inference], token: ", acme,
      "}\n- {tenant: other, scopes: [inference], token: ", kOther,
      "}\n- {tenant: ops, scopes: [admin], token: ", kOperator, "}\n");
}

class SecurityLiveTest : public testing::Test {
 protected:
  SecurityLiveTest() : config_(LiveServer::Config()) {}

  void UseTokens() {
    config_.secrets.token_file = TempPath("security_tokens.yaml");
    WriteTokens(TokenText(kAcme));
  }
  void WriteTokens(const std::string& text) {
    const std::string& path = config_.secrets.token_file;
    std::ofstream(path + ".new") << text;
    ASSERT_EQ(chmod((path + ".new").c_str(), 0600), 0);
    ASSERT_EQ(rename((path + ".new").c_str(), path.c_str()), 0);
  }

  void UseTls(const TestCertificate& identity) {
    config_.secrets.tls.cert = TempPath("security_cert.pem");
    config_.secrets.tls.key = TempPath("security_key.pem");
    WriteIdentity(identity);
  }
  void WriteIdentity(const TestCertificate& identity) {
    ReplaceFile(config_.secrets.tls.key, identity.key_pem());
    ReplaceFile(config_.secrets.tls.cert, identity.pem());
  }

  void Start() { live_ = std::make_unique<LiveServer>(config_); }
  void Serve() {
    EngineOptions options;
    options.model_name = "tiny";
    options.model_path = TempPath("security_tiny.gguf");
    options.cache_blocks = 300;
    options.thread_count = 1;
    ASSERT_TRUE(WriteTinyModel({}, options.model_path).ok());
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  static void Present(grpc::ClientContext& context, const std::string& token) {
    context.AddMetadata("authorization", "Bearer " + token);
  }

  grpc::Status StatusCall(const std::optional<std::string>& token) {
    grpc::ClientContext context;
    if (token.has_value()) Present(context, *token);
    v1::GetServerStatusResponse answer;
    return live_->inference().GetServerStatus(&context, {}, &answer);
  }

  // How a call over a connection of its own ends.
  grpc::Status CallWith(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    // Connections of one process are shared otherwise.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride("localhost");
    const auto stub = v1::Inference::NewStub(grpc::CreateCustomChannel(
        live_->server().grpc_address().ToString(), credentials, arguments));
    grpc::ClientContext context;
    v1::GetServerStatusResponse answer;
    return stub->GetServerStatus(&context, {}, &answer);
  }
  static std::shared_ptr<grpc::ChannelCredentials> Trusting(
      const TestCertificate& root, const TestCertificate* own = nullptr) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = root.pem();
    if (own != nullptr) {
      options.pem_private_key = own->key_pem();
      options.pem_cert_chain = own->pem();
    }
    return grpc::SslCredentials(options);
  }

  std::string Metrics() {
    const HostPort& address = live_->server().metrics_address();
    const auto result =
        httplib::Client(address.host, address.port).Get("/metrics");
    return result ? result->body : "no answer";
  }

  // Of a Generate call with `text`; -1 if it failed.
  int CachedTokens(const std::string& token, const std::string& text,
                   const std::string& salt = "") {
    v1::GenerateRequest request;
    request.set_text(text);
    request.mutable_stopping()->set_max_tokens(1);
    request.mutable_cache()->set_salt(salt);
    grpc::ClientContext context;
    Present(context, token);
    const LiveServer::Result result = live_->Generate(context, request);
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    return result.status.ok() ? result.finished().usage().cached_tokens() : -1;
  }

  ServerConfig config_;
  std::unique_ptr<LiveServer> live_;
};

// A method that is added and forgotten by the guard would be open to all.
TEST_F(SecurityLiveTest, EveryMethodAsksForATokenAndItsScope) {
  UseTokens();
  Start();
  for (const std::string& method : MethodNames()) {
    const grpc::Status none = live_->CallWithBytes(method, "");
    EXPECT_EQ(none.error_code(), grpc::UNAUTHENTICATED) << method;
    EXPECT_EQ(ReasonIn(none), "TOKEN_MISSING") << method;
    const bool admin = method.find("CacheAdmin") != std::string::npos;
    const grpc::Status wrong =
        live_->CallWithBytes(method, "", admin ? kAcme : kOperator);
    const grpc::Status right =
        live_->CallWithBytes(method, "", admin ? kOperator : kAcme);
    EXPECT_NE(right.error_code(), grpc::PERMISSION_DENIED) << method;
    EXPECT_NE(right.error_code(), grpc::UNAUTHENTICATED) << method;
    if (method == "kvasir.v1.Inference/CancelGeneration") continue;
    EXPECT_EQ(wrong.error_code(), grpc::PERMISSION_DENIED) << method;
    EXPECT_EQ(ReasonIn(wrong), "SCOPE_MISSING") << method;
  }
}

TEST_F(SecurityLiveTest, RefusalsAreCountedAndTellNoToken) {
  UseTokens();
  Start();
  EXPECT_TRUE(StatusCall(kAcme).ok());
  std::string told;
  for (const std::optional<std::string>& token :
       {std::optional<std::string>(), std::optional<std::string>(kNobody),
        std::optional<std::string>(kOperator)}) {
    const grpc::Status status = StatusCall(token);
    EXPECT_FALSE(status.ok());
    told += status.error_message() + status.error_details();
  }
  grpc::ClientContext context;
  context.AddMetadata("authorization", absl::StrCat("Basic ", kNobody));
  v1::GetServerStatusResponse answer;
  told +=
      live_->inference().GetServerStatus(&context, {}, &answer).error_message();
  const std::string metrics = Metrics();
  for (const char* reason : {"missing", "malformed", "unknown", "scope"}) {
    EXPECT_THAT(metrics,
                HasSubstr(absl::StrCat("kvasir_auth_failures_total{reason=\"",
                                       reason, "\"} 1\n")));
  }
  for (const char* secret : {kAcme, kOther, kOperator, kNobody}) {
    EXPECT_THAT(told, Not(HasSubstr(secret)));
    EXPECT_THAT(metrics, Not(HasSubstr(secret)));
  }
}

// Probes have no tokens.
TEST_F(SecurityLiveTest, HealthAndReflectionAreOpen) {
  UseTokens();
  Start();
  Serve();
  const auto health = grpc::health::v1::Health::NewStub(live_->channel());
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse answer;
  ASSERT_TRUE(health->Check(&context, {}, &answer).ok());
  EXPECT_EQ(answer.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_TRUE(live_
                  ->CallWithBytes("grpc.reflection.v1alpha.ServerReflection/"
                                  "ServerReflectionInfo",
                                  "")
                  .ok());
}

TEST_F(SecurityLiveTest, ChangedTokensAreTakenOverAndFaultyOnesAreNot) {
  UseTokens();
  Start();
  WriteTokens(TokenText(kNobody));
  live_->server().secrets().Poll();
  EXPECT_TRUE(StatusCall(kNobody).ok());
  EXPECT_EQ(StatusCall(kAcme).error_code(), grpc::UNAUTHENTICATED);
  WriteTokens("tokens: nonsense");
  live_->server().secrets().Poll();
  live_->server().secrets().Poll();
  EXPECT_TRUE(StatusCall(kNobody).ok());
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics, HasSubstr("kvasir_security_reloads_total{kind=\"tokens\""
                                 ",result=\"ok\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("kvasir_security_reloads_total{kind=\"tokens\""
                                 ",result=\"error\"} 1\n"));
}

TEST_F(SecurityLiveTest, TenantsShareNeitherCacheNorIds) {
  UseTokens();
  Start();
  Serve();
  const std::string text(200, 'a');
  EXPECT_EQ(CachedTokens(kAcme, text), 0);
  EXPECT_EQ(CachedTokens(kOther, text), 0);
  EXPECT_EQ(CachedTokens(kOther, text, "acme"), 0) << "the salt is other/acme";
  EXPECT_EQ(CachedTokens(kAcme, text, "narrow"), 0);
  EXPECT_GT(CachedTokens(kAcme, text), 0);
  EXPECT_GT(CachedTokens(kAcme, text, "narrow"), 0);

  // Two streams of one name; a third would be the same tenant's second.
  v1::GenerateRequest request;
  request.set_request_id("one");
  request.set_text("The old");
  request.set_stream(true);
  request.mutable_stopping()->set_ignore_eos(true);
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
    v1::GenerateResponse message;
  };
  Stream streams[2];
  const char* const tokens[] = {kAcme, kOther};
  for (int i = 0; i < 2; ++i) {
    Present(streams[i].context, tokens[i]);
    streams[i].reader =
        live_->inference().Generate(&streams[i].context, request);
    ASSERT_TRUE(streams[i].reader->Read(&streams[i].message));
    EXPECT_EQ(streams[i].message.request_id(), "one");
  }
  grpc::ClientContext twice;
  Present(twice, kAcme);
  const grpc::Status taken = live_->Generate(twice, request).status;
  EXPECT_EQ(taken.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(taken.error_message(), "request id \"one\" is in flight already");

  const auto cancel = [&](const std::string& token, const std::string& id) {
    grpc::ClientContext context;
    Present(context, token);
    v1::CancelGenerationRequest order;
    order.add_request_ids(id);
    v1::CancelGenerationResponse answer;
    EXPECT_TRUE(
        live_->inference().CancelGeneration(&context, order, &answer).ok());
    return answer.cancelled_ids_size();
  };
  EXPECT_EQ(cancel(kOther, "acme/one"), 0) << "another tenant's";
  EXPECT_EQ(cancel(kOperator, "one"), 0) << "his own tenant has none";
  EXPECT_EQ(cancel(kOther, "one"), 1);
  while (streams[1].reader->Read(&streams[1].message)) {
  }
  EXPECT_EQ(streams[1].reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(streams[0].reader->Read(&streams[0].message)) << "goes on";
  EXPECT_EQ(cancel(kOperator, "acme/one"), 1);
  while (streams[0].reader->Read(&streams[0].message)) {
  }
  EXPECT_EQ(streams[0].reader->Finish().error_code(), grpc::CANCELLED);
  const auto trailers = streams[0].context.GetServerTrailingMetadata();
  ASSERT_EQ(trailers.count("x-request-id"), 1u);
  EXPECT_EQ(trailers.find("x-request-id")->second, "one");
}

TEST_F(SecurityLiveTest, AdminListenerAloneAnswersCacheAdmin) {
  UseTokens();
  config_.admin_listen = HostPort{"127.0.0.1", 0};
  Start();
  Serve();
  const std::optional<HostPort> address = live_->server().admin_address();
  ASSERT_TRUE(address.has_value());
  const auto admin_channel = grpc::CreateChannel(
      address->ToString(), grpc::InsecureChannelCredentials());
  const auto stats = [](v1::CacheAdmin::Stub& stub, const std::string& token) {
    grpc::ClientContext context;
    Present(context, token);
    v1::GetCacheStatsResponse answer;
    return stub.GetCacheStats(&context, {}, &answer);
  };
  const auto admin = v1::CacheAdmin::NewStub(admin_channel);
  EXPECT_TRUE(stats(*admin, kOperator).ok());
  EXPECT_EQ(stats(*admin, kAcme).error_code(), grpc::PERMISSION_DENIED);
  const grpc::Status elsewhere = stats(live_->admin(), kOperator);
  EXPECT_EQ(elsewhere.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(elsewhere.error_message(), HasSubstr(address->ToString()));
  EXPECT_THAT(elsewhere.error_message(), HasSubstr("server.admin_listen"));
  EXPECT_EQ(stats(live_->admin(), kAcme).error_code(), grpc::PERMISSION_DENIED)
      << "who may not know hears nothing";
  // Both tell health; inference is the main one's.
  const auto health = grpc::health::v1::Health::NewStub(admin_channel);
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse answer;
  ASSERT_TRUE(health->Check(&context, {}, &answer).ok());
  EXPECT_EQ(answer.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  const auto inference = v1::Inference::NewStub(admin_channel);
  grpc::ClientContext other;
  Present(other, kAcme);
  v1::GetServerStatusResponse status;
  EXPECT_EQ(inference->GetServerStatus(&other, {}, &status).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(SecurityLiveTest, NewCertificatesComeIntoForceWithoutARestart) {
  const TestCertificate first({});
  const TestCertificate second({});
  UseTls(first);
  Start();
  EXPECT_TRUE(CallWith(Trusting(first)).ok());
  EXPECT_FALSE(CallWith(Trusting(second)).ok());
  EXPECT_FALSE(CallWith(grpc::InsecureChannelCredentials()).ok());
  WriteIdentity(second);
  live_->server().secrets().Poll();
  EXPECT_TRUE(CallWith(Trusting(second)).ok());
  EXPECT_FALSE(CallWith(Trusting(first)).ok());
  // Half of a pair is no pair; the old one stays, and it is counted once.
  ReplaceFile(config_.secrets.tls.cert, first.pem());
  live_->server().secrets().Poll();
  live_->server().secrets().Poll();
  EXPECT_TRUE(CallWith(Trusting(second)).ok());
  const std::string metrics = Metrics();
  EXPECT_THAT(metrics,
              HasSubstr("kvasir_security_reloads_total{kind=\"certificates\","
                        "result=\"error\"} 1\n"));
  EXPECT_THAT(metrics,
              HasSubstr("kvasir_security_reloads_total{kind=\"certificates\","
                        "result=\"ok\"} 1\n"));
  EXPECT_THAT(metrics,
              HasSubstr("kvasir_tls_certificate_expiry_timestamp_seconds"
                        "{role=\"server\"}"));
}

// A fault that is not in the files' bytes goes away without a new file; and one
// fault is one line, whoever looks at it how often.
TEST_F(SecurityLiveTest, FaultsAreToldOnceAndTriedAgain) {
  const TestCertificate first({});
  const TestCertificate soon({.begins = absl::Seconds(3)});
  UseTls(first);
  UseTokens();
  Start();
  testing::internal::CaptureStderr();
  Secrets& secrets = live_->server().secrets();
  ReplaceFile(config_.secrets.tls.key, soon.key_pem());
  ReplaceFile(config_.secrets.tls.cert, soon.pem());
  WriteTokens("tokens: [broken");
  // As on SIGHUP, whose caller says what it hears.
  EXPECT_FALSE(secrets.ReadAgain(config_.secrets).ok());
  secrets.Poll();
  secrets.Poll();
  EXPECT_FALSE(secrets.ReadAgain(config_.secrets).ok());
  // A connection is made, on which a token is asked for.
  EXPECT_EQ(CallWith(Trusting(first)).error_code(), grpc::UNAUTHENTICATED);
  EXPECT_TRUE(Eventually([&] {
    secrets.Poll();
    return secrets.state().tls.ok == 1;
  })) << "its time has come";
  EXPECT_EQ(CallWith(Trusting(soon)).error_code(), grpc::UNAUTHENTICATED);
  const std::string lines = testing::internal::GetCapturedStderr();
  const auto count = [&lines](const std::string& what) {
    int times = 0;
    for (size_t at = lines.find(what); at != std::string::npos;
         at = lines.find(what, at + 1)) {
      ++times;
    }
    return times;
  };
  // A key without its certificate may have been seen by the watch, too.
  EXPECT_LE(count("new certificates are not in order"), 2) << lines;
  EXPECT_LE(count("is not before"), 1) << lines;
  EXPECT_EQ(count("new tokens are not in order"), 1) << lines;
}

// A reload may wait between reading the files and taking them over, and a token
// be withdrawn meanwhile.
TEST_F(SecurityLiveTest, AReloadBringsNoOlderFilesBack) {
  const TestCertificate first({});
  const TestCertificate older({});
  const TestCertificate newest({});
  UseTls(first);
  UseTokens();
  Start();
  Secrets& secrets = live_->server().secrets();
  WriteIdentity(older);
  WriteTokens(TokenText("older-older-older-older"));
  absl::StatusOr<Secrets::Staged> staged = secrets.ReadAgain(config_.secrets);
  ASSERT_TRUE(staged.ok()) << staged.status();
  WriteIdentity(newest);
  WriteTokens(TokenText("newest-newest-newest"));
  secrets.Poll();
  secrets.Apply(*std::move(staged));
  EXPECT_EQ(CallWith(Trusting(newest)).error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(CallWith(Trusting(older)).error_code(), grpc::UNAVAILABLE);
  absl::StatusOr<Secrets::Staged> again = secrets.ReadAgain(config_.secrets);
  ASSERT_TRUE(again.ok()) << again.status();
  secrets.Apply(*std::move(again));
  EXPECT_EQ(CallWith(Trusting(newest)).error_code(), grpc::UNAUTHENTICATED);
}

TEST_F(SecurityLiveTest, AReloadBringsNoOlderTokenBack) {
  UseTokens();
  Start();
  Secrets& secrets = live_->server().secrets();
  WriteTokens(TokenText("older-older-older-older"));
  absl::StatusOr<Secrets::Staged> staged = secrets.ReadAgain(config_.secrets);
  ASSERT_TRUE(staged.ok()) << staged.status();
  WriteTokens(TokenText("newest-newest-newest"));
  secrets.Poll();
  secrets.Apply(*std::move(staged));
  EXPECT_TRUE(StatusCall("newest-newest-newest").ok());
  EXPECT_EQ(StatusCall("older-older-older-older").error_code(),
            grpc::UNAUTHENTICATED);
  EXPECT_EQ(StatusCall(kAcme).error_code(), grpc::UNAUTHENTICATED);
}

// The daemon's own watch finds them, too.
TEST_F(SecurityLiveTest, FilesAreWatched) {
  const TestCertificate first({});
  const TestCertificate second({});
  UseTls(first);
  UseTokens();
  Start();
  WriteIdentity(second);
  WriteTokens(TokenText(kNobody));
  EXPECT_TRUE(Eventually([&] {
    const Secrets::State state = live_->server().secrets().state();
    return state.tls.ok >= 1 && state.tokens.ok == 1;
  }));
}

TEST_F(SecurityLiveTest, ClientsNeedACertificateOfTheirRoots) {
  const TestCertificate server({});
  const TestCertificate root({.name = "clients"});
  const TestCertificate client({.name = "client", .issuer = &root});
  const TestCertificate next_root({.name = "next"});
  const TestCertificate next({.name = "client", .issuer = &next_root});
  UseTls(server);
  config_.secrets.tls.client_ca = TempPath("security_ca.pem");
  ReplaceFile(config_.secrets.tls.client_ca, root.pem());
  Start();
  EXPECT_TRUE(CallWith(Trusting(server, &client)).ok());
  EXPECT_FALSE(CallWith(Trusting(server)).ok());
  EXPECT_FALSE(CallWith(Trusting(server, &next)).ok());
  EXPECT_THAT(Metrics(), HasSubstr("{role=\"client_ca\"}"));
  ReplaceFile(config_.secrets.tls.client_ca, next_root.pem());
  live_->server().secrets().Poll();
  EXPECT_TRUE(CallWith(Trusting(server, &next)).ok());
  EXPECT_FALSE(CallWith(Trusting(server, &client)).ok());
}

TEST_F(SecurityLiveTest, FilesThatAreNotInOrderEndTheStart) {
  config_.secrets.tls.cert = TempPath("security_none.pem");
  config_.secrets.tls.key = config_.secrets.tls.cert;
  absl::Status status = KvasirServer::Start(config_, nullptr).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--tls-cert: cannot read"));
  config_.secrets = {};
  config_.secrets.token_file = TempPath("security_none.yaml");
  status = KvasirServer::Start(config_, nullptr).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--token-file: cannot read"));
}

}  // namespace
}  // namespace kvasir
