#include "common/rpc/accept_guard.h"

#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

bool Connects(const RpcServer& server, Duration timeout) {
  const auto channel = MakeChannel(server.endpoint(), TlsFiles{});
  return channel.ok() &&
         (*channel)->WaitForConnected(
             std::chrono::system_clock::now() +
             std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

int Open(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Both ends of every connection lie in this process, so the limit is reached twice as fast.
TEST(AcceptGuardTest, AServerWithoutDescriptorsRecovers) {
  auto server = RpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  InstallAcceptGuard();
  ASSERT_TRUE(Connects(**server, std::chrono::seconds(10)));
  // Sockets for the crowd are made before the limit, so that connecting needs none.
  std::vector<int> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int highest = dup(0);
  ASSERT_GE(highest, 0);
  close(highest);
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(crowd.back()) + 20;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);

  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>((*server)->endpoint().port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int fd : crowd) {
    (void)connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  const Time deadline = SteadyNow() + std::chrono::seconds(20);
  while (ConnectionsDropped() == 0 && SteadyNow() < deadline) {
    const int fd = Open((*server)->endpoint().port);  // knocks again; may find no descriptor
    if (fd >= 0) close(fd);
  }
  EXPECT_GT(ConnectionsDropped(), 0u);
  for (int fd : crowd) close(fd);
  // Without the guard the listener never accepts again, also after the limit is lifted.
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Connects(**server, std::chrono::seconds(20)));
}

}  // namespace
}  // namespace tandem
