#ifndef KVASIR_TESTS_SUPPORT_TEMP_PATH_H_
#define KVASIR_TESTS_SUPPORT_TEMP_PATH_H_

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace kvasir {

// A path for a test's own file. Test programs run side by side and each case
// in a process of its own, so each process has a folder: two that shared a path
// would rewrite a file that the other reads. The folder goes with the
// process. The test's own thread only.
inline std::string TempPath(const std::string& name) {
  struct Folder {
    Folder()
        : path(testing::TempDir() + "/kvasir_" + std::to_string(getpid())) {
      std::filesystem::create_directories(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    const std::string path;
  };
  static const Folder folder;
  return folder.path + "/" + name;
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_TEMP_PATH_H_
