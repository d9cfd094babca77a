#include "engine/model/byte_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

std::string Read(const ByteSource& source, int64_t offset, size_t size) {
  std::string text(size, '?');
  const absl::Status status = source.ReadAt(
      offset, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return status.ok() ? text : status.ToString();
}

TEST(ByteSource, FileAndMemoryReadAlike) {
  const std::string bytes = "0123456789";
  const std::string path = TempPath("digits");
  ASSERT_TRUE(WriteFileBytes(path, bytes).ok());
  const auto file = OpenFileSource(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto memory = MakeMemorySource(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  for (const ByteSource* source : {file->get(), memory.get()}) {
    EXPECT_EQ(source->size(), 10);
    EXPECT_EQ(Read(*source, 3, 4), "3456");
    EXPECT_EQ(Read(*source, 10, 0), "");
    EXPECT_TRUE(source->CheckUnchanged().ok());
  }
}

TEST(ByteSource, CutFileNamesWhatIsGone) {
  const std::string path = TempPath("cut");
  ASSERT_TRUE(WriteFileBytes(path, "0123456789").ok());
  const auto file = OpenFileSource(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(truncate(path.c_str(), 6), 0);
  EXPECT_EQ(Read(**file, 0, 6), "012345");
  const std::string text = Read(**file, 4, 4);
  EXPECT_NE(text.find("wanted bytes up to 8 of 10, found none after 6"),
            std::string::npos)
      << text;
  EXPECT_EQ((*file)->CheckUnchanged().code(),
            absl::StatusCode::kInvalidArgument);
}

// A new model moved over the old name: the old file is still whole for whoever
// has it open.
TEST(ByteSource, FileWhoseNameWentToAnotherIsUnchanged) {
  const std::string path = TempPath("old");
  ASSERT_TRUE(WriteFileBytes(path, "0123456789").ok());
  const auto file = OpenFileSource(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(WriteFileBytes(TempPath("new"), "new").ok());
  std::filesystem::rename(TempPath("new"), path);
  EXPECT_EQ(Read(**file, 0, 10), "0123456789");
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
}

}  // namespace
}  // namespace kvasir
