#ifndef KVASIR_SERVER_CONFIG_FILE_H_
#define KVASIR_SERVER_CONFIG_FILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvasir {

// One value of a configuration file and the line it stands on, from 1.
struct FileValue {
  std::string text;
  int line = 0;
  bool list = false;
  std::vector<std::string> items;  // of a list, which has no text
};

// The scalars, and lists of scalars, of a YAML file by their dotted key:
// `cache: {size: 8GiB}` is "cache.size". An empty file has none.
//
// NOT_FOUND if it cannot be read; INVALID_ARGUMENT with file and line for what
// is no YAML, any other list, or a key that comes twice.
absl::StatusOr<std::map<std::string, FileValue>> ReadConfigFile(
    const std::string& path);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CONFIG_FILE_H_
