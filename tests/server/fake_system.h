#ifndef KVASIR_TESTS_SERVER_FAKE_SYSTEM_H_
#define KVASIR_TESTS_SERVER_FAKE_SYSTEM_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/support/temp_path.h"

namespace kvasir {

constexpr int64_t kMebi = int64_t{1} << 20;
constexpr int64_t kGibi = int64_t{1} << 30;

// A made-up /proc and /sys in a folder of the test, of a host with 24 GiB whose
// files change when the test says so. A file is replaced as a whole, so that
// who reads meanwhile gets the old or the new one.
class FakeSystem {
 public:
  explicit FakeSystem(const std::string& name = "system")
      : root_(TempPath(name)) {
    std::filesystem::remove_all(root_);
    SetHost(24 * kGibi, 24 * kGibi);
  }

  const std::string& root() const { return root_; }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    const std::string fresh = file.string() + ".new";
    std::ofstream(fresh) << text;
    std::filesystem::rename(fresh, file);
  }
  void Remove(const std::string& path) {
    std::filesystem::remove_all(root_ + path);
  }

  void SetHost(int64_t total, int64_t available) {
    Write("/proc/meminfo",
          absl::StrCat("MemTotal:       ", total / 1024, " kB\nMemFree:  12 kB",
                       "\nMemAvailable:   ", available / 1024, " kB\n"));
  }

  // This process is in the group /app of v2, with these files.
  void SetGroup(const std::string& max, int64_t used, int64_t page_cache = 0) {
    Write("/proc/self/cgroup", "0::/app\n");
    Write("/sys/fs/cgroup/app/memory.max", max + "\n");
    Write("/sys/fs/cgroup/app/memory.current",
          absl::StrCat(used + page_cache, "\n"));
    Write("/sys/fs/cgroup/app/memory.stat",
          absl::StrCat("anon ", used, "\nfile ", page_cache, "\ninactive_file ",
                       page_cache / 2, "\nactive_file ",
                       page_cache - page_cache / 2, "\n"));
  }
  // `some` and `full` in percent, as the kernel writes them.
  void SetPressure(const std::string& some, const std::string& full) {
    Write(
        "/sys/fs/cgroup/app/memory.pressure",
        absl::StrCat("some avg10=", some, " avg60=0.00 avg300=0.00 total=7\n",
                     "full avg10=", full, " avg60=0.00 avg300=0.00 total=5\n"));
  }

 private:
  const std::string root_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_FAKE_SYSTEM_H_
