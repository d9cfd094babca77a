#include "server/tls_files.h"

#include <sys/stat.h>

#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/test_certificates.h"
#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    paths_.cert = Write("tls_cert.pem", leaf_.pem() + root_.pem());
    paths_.key = Write("tls_key.pem", leaf_.key_pem());
    paths_.client_ca = Write("tls_ca.pem", root_.pem());
  }

  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = TempPath(name);
    ReplaceFile(path, text);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }

  void ExpectFault(const std::string& option, const std::string& path,
                   const std::string& what) {
    const std::string text(
        ReadTlsFiles(paths_, absl::Now()).status().message());
    EXPECT_THAT(text, HasSubstr(option + ": "));
    EXPECT_THAT(text, HasSubstr(path));
    EXPECT_THAT(text, HasSubstr(what));
    EXPECT_THAT(text, Not(HasSubstr("BEGIN")));
  }

  const TestCertificate root_{{.name = "root"}};
  const TestCertificate leaf_{{.ends = absl::Hours(48), .issuer = &root_}};
  TlsPaths paths_;
};

TEST_F(TlsFilesTest, ReadsFilesAndTheirFirstExpiry) {
  const auto files = ReadTlsFiles(paths_, absl::Now());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->cert, leaf_.pem() + root_.pem());
  EXPECT_EQ(files->key, leaf_.key_pem());
  EXPECT_EQ(files->client_ca, root_.pem());
  EXPECT_LT(files->expiry, absl::Now() + absl::Hours(49));
  EXPECT_GT(files->client_ca_expiry, absl::Now() + absl::Hours(24 * 300));
  EXPECT_FALSE(files->key_open_to_all);
  ASSERT_EQ(chmod(paths_.key.c_str(), 0644), 0);
  EXPECT_TRUE(ReadTlsFiles(paths_, absl::Now())->key_open_to_all);
  paths_.client_ca.clear();
  EXPECT_EQ(ReadTlsFiles(paths_, absl::Now())->client_ca, "");
}

// Each is found out at the start and not by the first client.
TEST_F(TlsFilesTest, FaultsNameOptionAndFile) {
  const TestCertificate old{
      {.begins = -absl::Hours(9), .ends = -absl::Hours(1)}};
  Write("tls_cert.pem", old.pem());
  Write("tls_key.pem", old.key_pem());
  ExpectFault("--tls-cert", paths_.cert, "expired at ");
  const TestCertificate young{{.begins = absl::Hours(1)}};
  Write("tls_cert.pem", young.pem());
  ExpectFault("--tls-cert", paths_.cert, "is not before ");
  Write("tls_cert.pem", leaf_.pem() + old.pem());
  ExpectFault("--tls-cert", paths_.cert, "expired at ");
  Write("tls_cert.pem", leaf_.pem());
  ExpectFault("--tls-key", paths_.key, "wanted the key of the first");
  Write("tls_key.pem", leaf_.encrypted_key_pem());
  ExpectFault("--tls-key", paths_.key, "not encrypted");
  Write("tls_key.pem", "no key");
  ExpectFault("--tls-key", paths_.key, "wanted a private key");
  Write("tls_cert.pem", leaf_.key_pem());
  ExpectFault("--tls-cert", paths_.cert, "wanted certificates in PEM");
  Write("tls_cert.pem", leaf_.pem().substr(0, 200));
  ExpectFault("--tls-cert", paths_.cert, "wanted certificates in PEM");
  paths_.cert += ".not";
  ExpectFault("--tls-cert", paths_.cert, "cannot read");
}

// gRPC would be given them at a handshake and refuse them, and the old identity
// stay in force until it ends, though the log calls the new one in force.
TEST_F(TlsFilesTest, WhatHandshakesWouldRefuseIsRefused) {
  const TestCertificate weak{{.rsa_bits = 512}};
  Write("tls_cert.pem", weak.pem());
  Write("tls_key.pem", weak.key_pem());
  ExpectFault("--tls-cert", paths_.cert, "wanted certificates that TLS takes");
  const TestCertificate strong{{.rsa_bits = 2048}};
  Write("tls_cert.pem", strong.pem() + leaf_.pem());
  Write("tls_key.pem", strong.key_pem());
  const absl::Status taken = ReadTlsFiles(paths_, absl::Now()).status();
  EXPECT_TRUE(taken.ok()) << taken;
}

// A bundle of roots may keep old ones for a while.
TEST_F(TlsFilesTest, OneRootInForceIsEnough) {
  const TestCertificate old{
      {.begins = -absl::Hours(9), .ends = -absl::Hours(1)}};
  Write("tls_ca.pem", old.pem() + root_.pem());
  const auto files = ReadTlsFiles(paths_, absl::Now());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_GT(files->client_ca_expiry, absl::Now());
  Write("tls_ca.pem", old.pem());
  ExpectFault("--tls-client-ca", paths_.client_ca, "expired");
  Write("tls_ca.pem", "");
  ExpectFault("--tls-client-ca", paths_.client_ca, "wanted certificates");
}

}  // namespace
}  // namespace kvasir
