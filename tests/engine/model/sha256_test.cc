#include "engine/model/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace kvasir {
namespace {

// FIPS 180-2, appendix B.
constexpr const char* kOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  EXPECT_EQ(hash.Hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash.Update(std::string_view("a"));
  hash.Update(std::string_view(""));
  hash.Update(std::string_view("bc"));
  EXPECT_EQ(hash.Hex(), kOfAbc);
}

// A model's header is hashed once, and each reading of its tensors goes on from
// there.
TEST(Sha256, CopyGoesOnApartFromTheOriginal) {
  Sha256 first;
  first.Update(std::string_view("ab"));
  Sha256 second = first;
  second.Update(std::string_view("x"));
  first.Update(std::string_view("c"));
  EXPECT_EQ(first.Hex(), kOfAbc);
  second = first;
  EXPECT_EQ(second.Hex(), kOfAbc);
}

}  // namespace
}  // namespace kvasir
