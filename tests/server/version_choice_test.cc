#include "server/version_choice.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model/utf8.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

// What a call gets with these names: a label, or the status's code.
std::string Chosen(const GenerationBackend& backend, std::string_view model,
                   std::string_view version) {
  const auto chosen = ChooseVersion(backend, model, version);
  return chosen.ok() ? (*chosen)->label()
                     : absl::StatusCodeToString(chosen.status().code());
}

TEST(VersionChoice, AnEmptyNameMeansTheActiveVersion) {
  FakeBackend backend;
  backend.AddVersion("green", VersionState::kServing);
  EXPECT_EQ(Chosen(backend, "", ""), "tiny@12345678");
  EXPECT_EQ(Chosen(backend, "tiny", ""), "tiny@12345678");
  EXPECT_EQ(FirstVersion(backend)->label(), "tiny@12345678");
}

TEST(VersionChoice, LabelAndFingerprintNameAVersion) {
  FakeBackend backend;
  backend.AddVersion("green", VersionState::kServing);
  EXPECT_EQ(Chosen(backend, "", "green"), "green");
  EXPECT_EQ(Chosen(backend, "tiny", "green"), "green");
  EXPECT_EQ(Chosen(backend, "tiny", "green-fingerprint"), "green");
  EXPECT_EQ(Chosen(backend, "", "1234567890abcdef"), "tiny@12345678");
}

TEST(VersionChoice, UnknownNamesAreNotFound) {
  const FakeBackend backend;
  EXPECT_EQ(Chosen(backend, "gpt", ""), "NOT_FOUND");
  EXPECT_EQ(Chosen(backend, "gpt", "tiny@12345678"), "NOT_FOUND");
  EXPECT_EQ(Chosen(backend, "tiny", "tiny@other"), "NOT_FOUND");
  EXPECT_EQ(Chosen(backend, "", "tiny@other"), "NOT_FOUND");
}

// A client that names a version wants no other; it looks at their states first.
TEST(VersionChoice, AVersionThatDoesNotServeIsRefused) {
  FakeBackend backend;
  backend.AddVersion("green", VersionState::kWarming);
  backend.AddVersion("blue", VersionState::kDraining);
  EXPECT_EQ(Chosen(backend, "", "green"), "FAILED_PRECONDITION");
  EXPECT_EQ(Chosen(backend, "", "blue-fingerprint"), "FAILED_PRECONDITION");
}

// The same weights under two labels have one fingerprint, and a client that
// sends it does not care which; the one that serves must win over the other.
TEST(VersionChoice, OfVersionsWithOneFingerprintTheOneThatServesIsMeant) {
  VersionInfo draining;
  draining.label = "old";
  draining.fingerprint = "f";
  draining.state = VersionState::kDraining;
  VersionInfo serving = draining;
  serving.label = "new";
  serving.state = VersionState::kServing;
  VersionInfo active = serving;
  active.label = "now";
  active.active = true;
  EXPECT_EQ(LabelOf({draining}, "", "f"), "old");
  EXPECT_EQ(LabelOf({draining, serving}, "", "f"), "new");
  EXPECT_EQ(LabelOf({draining, serving, active}, "", "f"), "now");
  EXPECT_EQ(LabelOf({draining, serving, active}, "other", "f"), "f");
}

// Whoever is called like another's fingerprint is meant by that name: labels
// are what people choose.
TEST(VersionChoice, ALabelGoesBeforeAFingerprint) {
  VersionInfo one;
  one.label = "one";
  one.fingerprint = "two";
  one.active = true;
  VersionInfo two;
  two.label = "two";
  EXPECT_EQ(LabelOf({one, two}, "", "two"), "two");
}

// A name that was cut inside a character made the error's details unreadable,
// one with a line feed made two lines of one.
TEST(VersionChoice, ForeignTextIsQuotedInErrors) {
  const FakeBackend backend;
  std::string name = "a\n";
  for (int i = 0; i < 100; ++i) name += "\xe2\x82\xac";
  for (const auto& status : {ChooseVersion(backend, name, "").status(),
                             ChooseVersion(backend, "", name).status()}) {
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("\"a\\n\xe2\x82\xac"));
    EXPECT_EQ(WellFormedBytes(message), message.size()) << message;
  }
}

TEST(VersionChoice, EachModelIsListedOnce) {
  FakeBackend backend;
  backend.AddVersion("green", VersionState::kServing);
  const auto active = ActiveVersions(backend);
  ASSERT_EQ(active.size(), 1u);
  EXPECT_EQ(active[0]->label(), "tiny@12345678");
}

}  // namespace
}  // namespace kvasir
