#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "engine/backend/cpu/cpu_backend.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "engine/model/sha256.h"
#include "engine/model/weights.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

// A model on disk that somebody else writes to while it loads: while the
// weights of a mapped file were packed, that ended the daemon with SIGBUS, or
// ran the weights of one file under the digest of another.
class ModelFileChangeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFileBytes(path_, bytes_).ok());
    // Long ago: a file's time of modification moves in steps.
    std::filesystem::last_write_time(
        path_,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }

  // Loads the model; `meddle` runs after half of it.
  absl::StatusOr<Weights> Load(const std::function<void()>& meddle) {
    const auto backend = *MakeCpuBackend({.thread_count = 1});
    auto file = GgufFile::Open(path_);
    if (!file.ok()) return file.status();
    auto config = ReadModelConfig(**file);
    if (!config.ok()) return config.status();
    bool is_done = false;
    return LoadWeights(**file, *config, *backend,
                       [&](int64_t done, int64_t total) {
                         if (!is_done && 2 * done > total) {
                           is_done = true;
                           meddle();
                         }
                         return true;
                       });
  }

  void Overwrite(size_t offset, std::string_view with) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << with;
  }

  void ExpectRefused(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string text(status.message());
    EXPECT_NE(text.find(what), std::string::npos) << text;
    EXPECT_EQ(text.rfind(path_ + ": ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }

  // Larger than any read-ahead of the reader.
  const std::string bytes_ = TinyModelBytes({.hidden_dim = 256});
  const std::string path_ = TempPath("changing.gguf");
};

TEST_F(ModelFileChangeTest, DigestIsThatOfTheFile) {
  Sha256 hash;
  hash.Update(bytes_);
  const auto weights = Load([] {});
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->file_digest, hash.Hex());
}

// What stands between and behind the tensors is part of the file, too.
TEST_F(ModelFileChangeTest, DigestFollowsBytesThatNoTensorHas) {
  const auto plain = Load([] {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(WriteFileBytes(path_, bytes_ + "x").ok());
  const auto longer = Load([] {});
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_NE(longer->file_digest, plain->file_digest);
}

TEST_F(ModelFileChangeTest, FileCutWhileItLoadsIsRefused) {
  const auto weights =
      Load([&] { ASSERT_EQ(truncate(path_.c_str(), 4096), 0); });
  ExpectRefused(weights.status(), "changed while it was read: wanted " +
                                      std::to_string(bytes_.size()) + " bytes");
  ExpectRefused(weights.status(), "found 4096 bytes");
}

TEST_F(ModelFileChangeTest, FileRewrittenWhileItLoadsIsRefused) {
  // A byte that has been packed, one that has not.
  for (const size_t offset : {bytes_.size() / 4, bytes_.size() - 1}) {
    SetUp();
    ExpectRefused(Load([&] { Overwrite(offset, "\x55"); }).status(),
                  "changed while it was read");
  }
}

TEST_F(ModelFileChangeTest, FileThatGrowsWhileItLoadsIsRefused) {
  ExpectRefused(Load([&] { Overwrite(bytes_.size(), "more"); }).status(),
                "changed while it was read");
}

}  // namespace
}  // namespace kvasir
