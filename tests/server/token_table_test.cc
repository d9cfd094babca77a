#include "server/token_table.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

TokenEntry EntryOf(const std::string& token, const std::string& tenant) {
  return {.digest = DigestOf(token), .caller = {.tenant = tenant}};
}

// The walk goes over all entries and adds places up; a map does not.
TEST(TokenTable, FindsWhatAMapFinds) {
  std::mt19937 random(20);
  for (const size_t count : {0, 1, 2, 7, 100}) {
    std::map<std::string, std::string> twin;
    std::vector<TokenEntry> entries;
    while (twin.size() < count) {
      const std::string token = absl::StrCat("token-", random());
      const std::string tenant = absl::StrCat("tenant-", random() % 10);
      if (!twin.emplace(token, tenant).second) continue;
      entries.push_back(EntryOf(token, tenant));
    }
    const TokenTable table(entries);
    EXPECT_EQ(table.size(), count);
    for (const auto& [token, tenant] : twin) {
      const auto found = table.Find(token);
      ASSERT_TRUE(found.has_value()) << token;
      EXPECT_EQ(found->tenant, tenant);
      EXPECT_FALSE(table.Find(token + "x").has_value());
      EXPECT_FALSE(table.Find(token.substr(1)).has_value());
    }
    EXPECT_FALSE(table.Find("").has_value());
  }
}

// What joins a tenant and a name must not be another tenant's.
TEST(Caller, SaltsAndIdsOfTenantsNeverMeet) {
  const Caller none;
  EXPECT_EQ(none.SaltFor(""), "");
  EXPECT_EQ(none.SaltFor("a/b"), "a/b");
  EXPECT_EQ(none.EngineId("id"), "id");
  const Caller acme{.tenant = "acme"};
  EXPECT_EQ(acme.SaltFor(""), "acme");
  EXPECT_EQ(acme.SaltFor("x/y"), "acme/x/y");
  EXPECT_EQ(acme.EngineId("1"), "acme/1");
  EXPECT_EQ(acme.EngineId(""), "acme/");
  const Caller other{.tenant = "acm"};
  EXPECT_NE(other.EngineId("e/1"), acme.EngineId("1"));
  EXPECT_NE(other.SaltFor("e"), acme.SaltFor(""));
}

}  // namespace
}  // namespace kvasir
