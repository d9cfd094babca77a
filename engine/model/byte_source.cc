#include "engine/model/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

absl::Status SystemError(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": ", std::strerror(errno)));
}

// Not the time of the last status change: that moves when the file's name is
// given to another one, which is the right way to replace a model.
struct FileStamp {
  int64_t bytes = 0;
  absl::Time modified;

  bool operator==(const FileStamp&) const = default;
  std::string ToString() const {
    return absl::StrCat(
        bytes, " bytes of ",
        absl::FormatTime(absl::RFC3339_full, modified, absl::UTCTimeZone()));
  }
};

FileStamp StampOf(const struct stat& status) {
  return {status.st_size, absl::TimeFromTimespec(status.st_mtim)};
}

class FileSource final : public ByteSource {
 public:
  explicit FileSource(int fd) : fd_(fd) {}
  ~FileSource() override { close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::Status Init() {
    struct stat status;
    if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      return absl::InvalidArgumentError("wanted a regular file");
    }
    stamp_ = StampOf(status);
    // Only advice: the file is read from its start to its end.
    posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
    return absl::OkStatus();
  }

  int64_t size() const override { return stamp_.bytes; }

  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    const int64_t end = offset + static_cast<int64_t>(out.size());
    while (!out.empty()) {
      const ssize_t count = pread(fd_, out.data(), out.size(), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError("reading failed");
      if (count == 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the file was cut while it was read: wanted bytes up "
            "to ",
            end, " of ", stamp_.bytes, ", found none after ", offset));
      }
      out.remove_prefix(static_cast<size_t>(count));
      offset += count;
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const override {
    struct stat status;
    if (fstat(fd_, &status) != 0) return SystemError("fstat failed");
    const FileStamp now = StampOf(status);
    if (now == stamp_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the file changed while it was read: wanted ",
                     stamp_.ToString(), ", found ", now.ToString()));
  }

 private:
  const int fd_;
  FileStamp stamp_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }

  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> out) const override {
    const auto begin = static_cast<size_t>(offset);
    KV_CHECK(begin <= bytes_.size() && out.size() <= bytes_.size() - begin)
        << out.size() << " bytes at " << offset << " of " << bytes_.size();
    std::copy_n(bytes_.data() + begin, out.size(), out.data());
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }

 private:
  const absl::Span<const uint8_t> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(
    const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return errno == ENOENT ? absl::NotFoundError("no such file")
                           : SystemError("opening failed");
  }
  auto source = std::make_unique<FileSource>(fd);
  if (absl::Status status = source->Init(); !status.ok()) return status;
  if (source->size() == 0) {
    return absl::InvalidArgumentError(
        "wanted a model file, found an empty one");
  }
  return source;
}

std::unique_ptr<ByteSource> MakeMemorySource(absl::Span<const uint8_t> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace kvasir
