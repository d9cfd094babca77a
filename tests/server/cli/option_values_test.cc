#include "server/cli/option_values.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kvasir/v1/inference.pb.h"

namespace kvasir::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

template <typename Value>
std::string FaultOf(const absl::StatusOr<Value>& value) {
  EXPECT_FALSE(value.ok());
  return std::string(value.status().message());
}

// CLI11 reads "3x" as 3, 2^32 as 0 and -1 as a huge seed.
TEST(OptionValuesTest, NumbersAreReadWholeOrNotAtAll) {
  EXPECT_EQ(*ReadInt("-1"), -1);
  EXPECT_EQ(*ReadInt("2147483647"), 2147483647);
  EXPECT_EQ(FaultOf(ReadInt("2147483648")),
            "wanted a whole number of 32 bits, found \"2147483648\"");
  EXPECT_FALSE(ReadInt("3x").ok());
  EXPECT_FALSE(ReadInt("").ok());
  EXPECT_FALSE(ReadInt("1.5").ok());
  EXPECT_EQ(*ReadSeed("18446744073709551615"), 18446744073709551615u);
  for (const char* seed : {"-1", "+1", "18446744073709551616", "1.5", ""}) {
    EXPECT_THAT(FaultOf(ReadSeed(seed)), HasSubstr("2^64 - 1")) << seed;
  }
  EXPECT_FLOAT_EQ(*ReadNumber("-0.5"), -0.5F);
  EXPECT_EQ(FaultOf(ReadNumber("warm")), "wanted a number, found \"warm\"");
}

// The server has words for them; two judges would come to differ.
TEST(OptionValuesTest, WhatMakesNoSenseIsTheServersToRefuse) {
  EXPECT_TRUE(ReadNumber("nan").ok());
  EXPECT_TRUE(ReadNumber("-1e30").ok());
  EXPECT_TRUE(ReadTime("0").ok());
  EXPECT_TRUE(ReadTokenIds("4294967295").ok());
}

TEST(OptionValuesTest, TimesHaveUnits) {
  EXPECT_EQ(ReadTime("1m30s")->seconds(), 90);
  EXPECT_EQ(ReadTime("250ms")->nanos(), 250000000);
  EXPECT_THAT(FaultOf(ReadTime("30")), HasSubstr("a time with a unit"));
  EXPECT_FALSE(ReadTime("-1s").ok());
}

// What `kvasir tokenize --ids` prints, and what others do.
TEST(OptionValuesTest, IdsInAnyUsualForm) {
  EXPECT_THAT(*ReadTokenIds("1 2 3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ReadTokenIds("[1, 2,\n3]"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ReadTokenIds(" "), IsEmpty());
  EXPECT_EQ(FaultOf(ReadTokenIds("1,-2")), "wanted token ids, found \"-2\"");
  EXPECT_FALSE(ReadTokenIds("4294967296").ok());
  EXPECT_FALSE(ReadTokenIds("1.0").ok());
}

// An empty list of allowed ids would allow all.
TEST(OptionValuesTest, NoIdsAreNoValueOfAnOption) {
  EXPECT_EQ(FaultOf(ReadSomeTokenIds("[]")), "wanted token ids, found \"[]\"");
  EXPECT_FALSE(ReadSomeTokenIds("").ok());
  EXPECT_THAT(*ReadSomeTokenIds("7"), ElementsAre(7));
}

TEST(OptionValuesTest, PairsAreSplitAtTheFirstSign) {
  EXPECT_EQ(ReadBias("260=-1.5")->first, 260u);
  EXPECT_FLOAT_EQ(ReadBias("260=-1.5")->second, -1.5F);
  for (const char* bias : {"260", "260=", "=1", "-1=1", "260=x", "1=2=3"}) {
    EXPECT_THAT(FaultOf(ReadBias(bias)), HasSubstr("ID=AMOUNT")) << bias;
  }
  EXPECT_EQ(ReadLabel("team=a=b")->first, "team");
  EXPECT_EQ(ReadLabel("team=a=b")->second, "a=b");
  EXPECT_EQ(ReadLabel("team=")->second, "");
  EXPECT_EQ(FaultOf(ReadLabel("team")), "wanted KEY=VALUE, found \"team\"");
}

TEST(OptionValuesTest, AnObjectKeepsItsTypes) {
  const auto object = ReadStruct(R"({"think": true, "n": 3, "l": ["x"]})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_TRUE(object->fields().at("think").bool_value());
  EXPECT_EQ(object->fields().at("n").number_value(), 3);
  EXPECT_EQ(object->fields().at("l").list_value().values_size(), 1);
  EXPECT_EQ(FaultOf(ReadStruct("[1]")), "wanted a JSON object, found array");
  EXPECT_EQ(FaultOf(ReadStruct("{x}")), "wanted JSON, found a fault at byte 2");
  // What one reader of JSON takes, the other may not.
  EXPECT_THAT(FaultOf(ReadStruct(R"({"a": 1, "a": 2})")),
              StartsWith("wanted a JSON object, found a fault: "));
}

TEST(OptionValuesTest, WordsOfAnEnum) {
  const auto& modes = *v1::CacheMode_descriptor();
  EXPECT_EQ(EnumWords(modes), "read-write|read-only|bypass");
  EXPECT_EQ(*ReadEnum(modes, "read-only"), v1::CACHE_MODE_READ_ONLY);
  EXPECT_EQ(*ReadEnum(modes, "read_only"), v1::CACHE_MODE_READ_ONLY);
  EXPECT_EQ(FaultOf(ReadEnum(modes, "unspecified")),
            "wanted read-write or read-only or bypass, found \"unspecified\"");
  EXPECT_EQ(*ReadEnum(*v1::TruncateSide_descriptor(), "right"),
            v1::TRUNCATE_SIDE_RIGHT);
}

}  // namespace
}  // namespace kvasir::cli
