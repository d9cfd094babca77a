#ifndef KVASIR_TESTS_SERVER_DAEMON_PROCESS_H_
#define KVASIR_TESTS_SERVER_DAEMON_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "kvasir/v1/inference.grpc.pb.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

extern char** environ;

namespace kvasir {

// kvasird lies beside this test program.
inline std::string DaemonPath() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  const std::string self(path, static_cast<size_t>(size));
  return self.substr(0, self.rfind('/')) + "/kvasird";
}

// kvasird, or a program that starts it, as a process. Its output is its log.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments,
                   std::vector<std::string> environment = {})
      : Process(DaemonPath(), std::move(arguments), std::move(environment)) {}

  // `environment`: NAME=VALUE beside what this process has.
  Process(const std::string& program, std::vector<std::string> arguments,
          std::vector<std::string> environment) {
    log_ = absl::StrCat(testing::TempDir(), "/kvasird_", getpid(), "_",
                        ++count_, ".log");
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    for (std::string& one : environment) envp.push_back(one.data());
    for (char** one = environ; *one != nullptr; ++one) envp.push_back(*one);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(&actions, fd, log_.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(),
                          envp.data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    unlink(log_.c_str());
  }

  void Signal(int signal) const { kill(pid_, signal); }

  // Number of its only child process; empty if there is none.
  std::string Child() const {
    std::ifstream file(
        absl::StrCat("/proc/", pid_, "/task/", pid_, "/children"));
    std::string child;
    file >> child;
    return child;
  }

  // The exit code, or 1000 plus the signal that killed it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  std::string log() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file),
            std::istreambuf_iterator<char>()};
  }

  // Waits for a line with `text`; the line.
  std::string WaitForLine(const std::string& text) const {
    std::string found;
    EXPECT_TRUE(Eventually([&] {
      const std::string all = log();
      const size_t at = all.find(text);
      if (at == std::string::npos) return false;
      const size_t end = all.find('\n', at);
      if (end == std::string::npos) return false;
      found = all.substr(at, end - at);
      return true;
    })) << text
        << " never came: " << log();
    return found;
  }

 private:
  static inline int count_ = 0;
  std::string log_;
  pid_t pid_ = -1;
};

// kvasird with the model TINY.
class DaemonTest : public testing::Test {
 protected:
  DaemonTest() {
    model_ = TempPath("daemon_tiny.gguf");
    const absl::Status written = WriteTinyModel({}, model_);
    EXPECT_TRUE(written.ok()) << written;
  }

  std::vector<std::string> Arguments(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {
        "--model=" + model_, "--listen=127.0.0.1:0",
        "--metrics-listen=127.0.0.1:0", "--threads=1", "--cache-size=16MiB",
        // The machine's memory is no test's matter.
        "--cache-auto-resize=false", "--config=/dev/null"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // The value of `key=` in a log line.
  static std::string Field(const std::string& line, const std::string& key) {
    const size_t at = line.find(" " + key + "=");
    if (at == std::string::npos) return "";
    const size_t begin = at + key.size() + 2;
    return line.substr(begin, line.find(' ', begin) - begin);
  }

  // Once it is ready.
  static std::unique_ptr<v1::Inference::Stub> ClientOf(const Process& daemon) {
    return v1::Inference::NewStub(grpc::CreateChannel(
        Field(daemon.WaitForLine("kvasird is ready"), "grpc"),
        grpc::InsecureChannelCredentials()));
  }

  std::string model_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_DAEMON_PROCESS_H_
