#include "server/cli/connection.h"

#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/cli/commands.h"
#include "tests/server/live_server.h"
#include "tests/server/test_certificates.h"
#include "tests/support/temp_path.h"

namespace kvasir::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = TempPath("connection_" + name);
  ReplaceFile(path, text);
  EXPECT_EQ(chmod(path.c_str(), 0600), 0);
  return path;
}

TEST(ReadConnection, TakesOneTokenAndTheWhiteSpaceAroundIt) {
  for (const char* text : {"abc", "abc\n", "  abc\r\n"}) {
    const auto read = ReadConnection({.token_file = Write("token", text)});
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->token, "abc");
    EXPECT_FALSE(read->tls);
  }
  for (const char* text : {"", "\n", "abc def", "abc\ndef", "ab\x01", "\xc3"}) {
    const std::string path = Write("token", text);
    const absl::Status status = ReadConnection({.token_file = path}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("abc")));
  }
  EXPECT_TRUE(ReadConnection({})->token.empty());
}

TEST(ReadConnection, AnyOptionOfTlsMeansTls) {
  const std::string file = Write("pem", "pem");
  EXPECT_TRUE(ReadConnection({.tls = true})->tls);
  EXPECT_EQ(ReadConnection({.tls_ca = file})->ca, "pem");
  EXPECT_TRUE(ReadConnection({.tls_ca = file})->tls);
  EXPECT_TRUE(ReadConnection({.tls_server_name = "x"})->tls);
  EXPECT_TRUE(ReadConnection({.tls_cert = file, .tls_key = file})->tls);
  EXPECT_FALSE(ReadConnection({.tls_cert = file}).ok());
  EXPECT_FALSE(ReadConnection({.tls_key = file}).ok());
  const absl::Status missing =
      ReadConnection({.tls_ca = file + ".not"}).status();
  EXPECT_THAT(std::string(missing.message()), HasSubstr("--tls-ca: cannot"));
}

// The whole way: the program's own exit codes against a server that asks for a
// certificate and a token.
TEST(Kvasir, SpeaksTlsAndPresentsItsToken) {
  const TestCertificate server({});
  const TestCertificate root({.name = "clients"});
  const TestCertificate client({.name = "client", .issuer = &root});
  ServerConfig config = LiveServer::Config();
  config.secrets.tls = {.cert = Write("cert", server.pem()),
                        .key = Write("key", server.key_pem()),
                        .client_ca = Write("ca", root.pem())};
  const std::string token = "operator-operator";
  config.secrets.token_file = Write(
      "tokens", absl::StrCat("tokens:\n- {tenant: ops, scopes: [inference], "
                             "token: ",
                             token, "}\n"));
  LiveServer live(config);
  const std::vector<std::string> reached = {
      "--addr=" + live.server().grpc_address().ToString(),
      "--tls-ca=" + config.secrets.tls.cert,
      "--tls-cert=" + Write("client", client.pem()),
      "--tls-key=" + Write("client_key", client.key_pem())};
  const auto run = [&](std::vector<std::string> more, size_t count) {
    more.insert(more.end(), reached.begin(),
                reached.begin() + static_cast<std::ptrdiff_t>(count));
    return RunCli(more);
  };
  // The model is not there: 4 is what the server says of itself.
  EXPECT_EQ(run({"health"}, 4), 4);
  EXPECT_EQ(run({"health"}, 2), 2) << "no certificate of the client's";
  EXPECT_EQ(run({"health"}, 1), 2) << "no TLS";
  EXPECT_EQ(run({"models"}, 4), 64 + grpc::UNAUTHENTICATED);
  EXPECT_EQ(run({"models", "--token-file", Write("token", token)}, 4),
            64 + grpc::UNAVAILABLE)
      << "let in, and no model yet";
  EXPECT_EQ(run({"models", "--token-file", Write("token", token + "x")}, 4),
            64 + grpc::UNAUTHENTICATED);
  EXPECT_EQ(run({"models", "--token-file", "/nowhere"}, 4), 1);
}

}  // namespace
}  // namespace kvasir::cli
