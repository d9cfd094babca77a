#ifndef KVASIR_TESTS_SUPPORT_TEMP_PATH_H_
#define KVASIR_TESTS_SUPPORT_TEMP_PATH_H_

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {

// A path for a test's own file. Test programs run side by side and each case
// in a process of its own, so the process is part of the name: two that share
// a path would rewrite a file that the other has mapped. What is there when the
// process ends is removed. The test's own thread only.
inline std::string TempPath(const std::string& name) {
  struct Remover {
    ~Remover() {
      std::error_code ignored;
      for (const std::string& path : paths) {
        std::filesystem::remove_all(path, ignored);
      }
    }
    std::vector<std::string> paths;
  };
  static Remover remover;
  remover.paths.push_back(testing::TempDir() + "/kvasir_" +
                          std::to_string(getpid()) + "_" + name);
  return remover.paths.back();
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_TEMP_PATH_H_
