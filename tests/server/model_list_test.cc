#include "server/model_list.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

// "name:path|..." of what was understood.
std::string Parsed(std::string_view text) {
  const auto models = ParseModels(text);
  if (!models.ok()) return std::string(models.status().message());
  std::string all;
  for (const ModelSource& model : *models) {
    absl::StrAppend(&all, all.empty() ? "" : "|", model.name, ":", model.path);
  }
  return all;
}

TEST(ParseModelsTest, OneModelWithOrWithoutItsName) {
  EXPECT_EQ(Parsed("m.gguf"), ":m.gguf");
  EXPECT_EQ(Parsed("small=/models/m.gguf"), "small:/models/m.gguf");
  EXPECT_EQ(Parsed("/a=b/m.gguf"), ":/a=b/m.gguf") << "a name has no slash";
  EXPECT_EQ(Parsed("a=b=c.gguf"), "a:b=c.gguf");
  EXPECT_EQ(Parsed("=m.gguf"), ":=m.gguf");
}

TEST(ParseModelsTest, SeveralBySeparatorOrByCommaAndName) {
  EXPECT_EQ(Parsed("a=x.gguf\x1fy.gguf\x1f"
                   "c=/z.gguf"),
            "a:x.gguf|:y.gguf|c:/z.gguf");
  EXPECT_EQ(Parsed("a=x.gguf,b=/d/y.gguf,c=z"), "a:x.gguf|b:/d/y.gguf|c:z");
}

// A path with a comma was served before there were lists.
TEST(ParseModelsTest, ACommaMayBelongToAPath) {
  EXPECT_EQ(Parsed("/m/a,b.gguf"), ":/m/a,b.gguf");
  EXPECT_EQ(Parsed("n=/m/a,b.gguf,o=/m/c,d/e=f.gguf"),
            "n:/m/a,b.gguf|o:/m/c,d/e=f.gguf");
}

TEST(ParseModelsTest, NothingIsNoPath) {
  for (const char* text : {"", "a=", "a=x\x1f", "a=,b=x"}) {
    EXPECT_FALSE(ParseModels(text).ok()) << text;
  }
}

}  // namespace
}  // namespace kvasir
