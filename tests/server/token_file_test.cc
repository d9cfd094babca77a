#include "server/token_file.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kSecret[] = "s3cret-s3cret-s3cret";

std::string Entry(const std::string& tenant, const std::string& token) {
  return absl::StrCat("tokens:\n- tenant: ", tenant, "\n  token: ", token,
                      "\n  scopes: [inference]\n");
}

TEST(ParseTokens, ReadsTokensDigestsTenantsAndScopes) {
  const TokenDigest digest = DigestOf("another-token-of-somebody");
  const std::string hex =
      absl::BytesToHexString(std::string(digest.begin(), digest.end()));
  const auto entries = ParseTokens(
      "f", absl::StrCat(Entry("acme", kSecret), "- tenant: ops\n  sha256: \"",
                        hex, "\"\n  scopes: [admin, inference]\n",
                        "- {scopes: [admin], token: 0123456789012345, "
                        "tenant: acme}\n"));
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].caller.tenant, "acme");
  EXPECT_EQ((*entries)[0].digest, DigestOf(kSecret));
  EXPECT_TRUE((*entries)[0].caller.may_infer);
  EXPECT_FALSE((*entries)[0].caller.may_admin);
  EXPECT_EQ((*entries)[1].digest, digest);
  EXPECT_TRUE((*entries)[1].caller.may_infer);
  EXPECT_TRUE((*entries)[1].caller.may_admin);
  EXPECT_EQ((*entries)[2].digest, DigestOf("0123456789012345"))
      << "digits are text";
  EXPECT_FALSE((*entries)[2].caller.may_infer);
}

// A token lands in any place of the file by mistake; no fault may quote it.
TEST(ParseTokens, FaultsNameLineAndWishAndNeverWhatStandsThere) {
  const std::string secret = kSecret;
  const struct {
    std::string text;
    const char* says;
  } kFaults[] = {
      {"", "f: wanted `tokens:` and a list"},
      {"tokens: " + secret, "f:1: wanted `tokens:` and a list"},
      {"tokens: []", "wanted at least one"},
      {secret + ": x", "wanted `tokens:`"},
      {"tokens:\n- " + secret, "f:2: wanted tenant, token or sha256"},
      {"tokens:\n- " + secret + ": x", "keys, found another"},
      {Entry("a", secret) + "  " + secret + ": 1\n", "f:5: wanted tenant"},
      {Entry("a", secret) + "  token: " + secret + "\n", "one twice"},
      {Entry("a/b", secret), "f:2: tenant: wanted 1 to 64"},
      {Entry("\"a b\"", secret), "tenant: wanted"},
      {Entry("\"\"", secret), "tenant: wanted"},
      {Entry(std::string(65, 'a'), secret), "tenant: wanted"},
      {Entry("a", "s3cret-s3cret-s"), "f:3: token: wanted 16 to 1024 visible"},
      {Entry("a", "\"s3cret-s3cret s3cret\""), "token: wanted"},
      {Entry("a", std::string(1025, 's')), "found 1025 bytes"},
      {Entry("a", "[" + secret + "]"), "token: wanted one value"},
      {"tokens:\n- {tenant: a, scopes: [admin]}", "wanted a token or sha256"},
      {"tokens:\n- {token: " + secret + ", scopes: [admin]}",
       "wanted a tenant"},
      {"tokens:\n- {tenant: a, token: " + secret + "}", "wanted scopes"},
      {"tokens:\n- {tenant: a, token: " + secret + ", scopes: []}",
       "wanted scopes"},
      {"tokens:\n- {tenant: a, token: " + secret + ", scopes: admin}",
       "scopes: wanted a list"},
      {"tokens:\n- {tenant: a, token: " + secret + ", scopes: [" + secret +
           "]}",
       "scopes: wanted inference or admin"},
      {"tokens:\n- {tenant: a, sha256: " + secret + ", scopes: [admin]}",
       "sha256: wanted 64 hex digits"},
      {Entry("a", secret) + "- {tenant: b, token: " + secret +
           ", scopes: [admin]}\n",
       "f:5: wanted each token once"},
      {"tokens: [" + secret, "wanted YAML"},
  };
  for (const auto& fault : kFaults) {
    const absl::Status status = ParseTokens("f", fault.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << fault.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.says));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("s3cret")));
  }
}

TEST(ParseTokens, MoreThanTheyMayBeAreRefused) {
  std::string text = "tokens:\n";
  for (size_t i = 0; i <= kMaxTokens; ++i) {
    absl::StrAppend(&text, "- {tenant: a, token: ", 1000000000000000000 + i,
                    ", scopes: [admin]}\n");
  }
  EXPECT_THAT(std::string(ParseTokens("f", text).status().message()),
              HasSubstr("wanted at most 1024"));
}

// Tokens that everybody can read are no secret; digests of them are none.
TEST(ReadTokenFile, RefusesPlainTokensThatEverybodyMayRead) {
  const std::string path = TempPath("tokens.yaml");
  std::ofstream(path) << Entry("acme", kSecret);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_TRUE(ReadTokenFile(path).ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  const absl::Status refused = ReadTokenFile(path).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("mode 0644"));
  std::ofstream(path) << "tokens:\n- {tenant: a, scopes: [admin], sha256: \""
                      << std::string(64, 'a') << "\"}\n";
  EXPECT_TRUE(ReadTokenFile(path).ok());
  const absl::Status missing = ReadTokenFile(path + ".not").status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr(path + ".not"));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadTokenFile("/dev").status()));
  std::ofstream(path) << std::string(kMaxTokenFileBytes + 1, '#');
  EXPECT_THAT(std::string(ReadTokenFile(path).status().message()),
              HasSubstr("wanted at most 1048576 bytes"));
}

}  // namespace
}  // namespace kvasir
