#include "server/metrics_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "httplib.h"
#include "tests/server/live_server.h"

namespace kvasir {
namespace {

class MetricsHttpTest : public testing::Test {
 protected:
  MetricsHttpTest() {
    absl::StatusOr<std::unique_ptr<MetricsHttp>> http =
        MetricsHttp::Start({"127.0.0.1", 0}, &state_, &exporter_);
    if (!http.ok()) ADD_FAILURE() << http.status();
    http_ = *std::move(http);
  }

  bool Lives() {
    const auto result = httplib::Client("127.0.0.1", port()).Get("/livez");
    return result && result->status == 200;
  }
  int port() const { return http_->address().port; }

  // A connection that says nothing.
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  ServerState state_;
  CallStats calls_;
  MemoryWatch memory_{{}};
  MetricsExporter exporter_{&state_, &calls_, &memory_};
  std::unique_ptr<MetricsHttp> http_;
};

// Two connections of a port scan kept every probe out until they timed out.
TEST_F(MetricsHttpTest, SilentConnectionsKeepNobodyOut) {
  // The silent ones have a second; a busy machine may need some tries to be
  // served while all of them are still there.
  EXPECT_TRUE(Eventually([this] {
    std::vector<int> silent;
    for (int i = 0; i < 8; ++i) silent.push_back(Connect());
    bool served_meanwhile = Lives();
    for (const int fd : silent) {
      char byte = 0;
      // 0 is the end: the server has given it up.
      if (recv(fd, &byte, 1, MSG_DONTWAIT) == 0) served_meanwhile = false;
      close(fd);
    }
    return served_meanwhile;
  }));
}

// The library leaves its loop when accept() fails; probes and metrics were gone
// without a word, and the destructor waited for the loop to begin.
TEST_F(MetricsHttpTest, FailedListenerComesBack) {
  ASSERT_TRUE(Lives());
  constexpr int kMostFiles = 1024;
  int broken = 0;
  for (int fd = 3; fd < kMostFiles; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    int listens = 0;
    socklen_t listens_size = sizeof(listens);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sin_family == AF_INET && ntohs(address.sin_port) == port() &&
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) ==
            0 &&
        listens != 0) {
      shutdown(fd, SHUT_RDWR);  // accept() fails from now on
      ++broken;
    }
  }
  ASSERT_EQ(broken, 1);
  EXPECT_TRUE(Eventually([this] { return Lives(); }));
  http_.reset();
}

TEST_F(MetricsHttpTest, EndsAtOnceAfterItsStart) { http_.reset(); }

}  // namespace
}  // namespace kvasir
