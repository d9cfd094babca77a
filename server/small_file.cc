#include "server/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kvasir {
namespace {

absl::Status Unreadable(const std::string& path, int error) {
  return absl::NotFoundError(
      absl::StrCat("cannot read ", path, ": ", std::strerror(error)));
}

// 0 or the error of the system. Reads on to one byte more than may be.
int ReadAll(int fd, size_t max_bytes, std::string& text) {
  text.resize(max_bytes + 1);
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return 0;
}

}  // namespace

absl::StatusOr<SmallFile> ReadSmallFile(const std::string& path,
                                        size_t max_bytes) {
  // Not to wait for whoever holds the other end of a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Unreadable(path, errno);
  struct stat info {};
  SmallFile file;
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  const bool regular = error == 0 && S_ISREG(info.st_mode);
  if (regular) error = ReadAll(fd, max_bytes, file.text);
  close(fd);
  if (error != 0) return Unreadable(path, error);
  if (!regular) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted a regular file, found none"));
  }
  if (file.text.size() > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": wanted at most ", max_bytes, " bytes, found more"));
  }
  file.mode = info.st_mode & 07777;
  return file;
}

std::string FileStamp(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  return absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ",
                      info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, " ",
                      info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

}  // namespace kvasir
