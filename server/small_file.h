#ifndef KVASIR_SERVER_SMALL_FILE_H_
#define KVASIR_SERVER_SMALL_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace kvasir {

struct SmallFile {
  std::string text;
  mode_t mode = 0;

  // Whether every user of the machine may read or write it.
  bool open_to_all() const { return (mode & 06) != 0; }
};

// A regular file of at most `max_bytes`, such as a key or a list of tokens.
//
// NOT_FOUND if it cannot be read, INVALID_ARGUMENT if it is no regular file or
// larger; both name the path and nothing of the content.
absl::StatusOr<SmallFile> ReadSmallFile(const std::string& path,
                                        size_t max_bytes);

// Tells the states of a file apart: another one since it was replaced, written
// or touched, also through links. Empty if there is none.
std::string FileStamp(const std::string& path);

}  // namespace kvasir

#endif  // KVASIR_SERVER_SMALL_FILE_H_
