// The emulated hosts of tests/support: faults of links, and programs on hosts. The tests are
// skipped if the machine does not permit network namespaces.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/support/host_processes.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

constexpr int kPort = 4711, kSecondsMax = 20;

// A UDP socket on a host. One packet carries one number.
class UdpSocket {
 public:
  UdpSocket(const EmulatedHosts& hosts, int host) {
    std::thread([&] {
      const Status entered = hosts.Enter(host);
      ASSERT_TRUE(entered.ok()) << entered;
      fd_ = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const sockaddr_in own = AddressOf(host);
      ASSERT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    }).join();
  }
  void Send(int host, int number) const {
    const sockaddr_in to = AddressOf(host);
    ASSERT_EQ(::sendto(fd_.get(), &number, sizeof(number), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(sizeof(number)));
  }
  // Returns the next number; -1: no packet arrives.
  int Receive() const {
    pollfd readable = {fd_.get(), POLLIN, 0};
    int number = -1;
    if (::poll(&readable, 1, kSecondsMax * 1000) == 1) {
      EXPECT_GT(::recv(fd_.get(), &number, sizeof(number), 0), 0);
    }
    return number;
  }

 private:
  static sockaddr_in AddressOf(int host) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    ::inet_pton(AF_INET, EmulatedHosts::Address(host).c_str(), &address.sin_addr);
    return address;
  }

  Fd fd_;
};

class EmulatedHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = EmulatedHosts::Create(3, {});
    if (!made.ok()) GTEST_SKIP() << "no emulated hosts here: " << made.status().message();
    hosts_ = std::move(*made);
    hosts_->Start();
  }
  // Waits until faults have dropped `packets` packets of the host.
  bool WaitForDrops(int host, int64_t packets) const {
    return WaitUntil([&] { return hosts_->packets_dropped(host) >= packets; }, kSecondsMax);
  }

  TempDir dir_;
  std::unique_ptr<EmulatedHosts> hosts_;
};

TEST_F(EmulatedHostsTest, FaultsDropThePacketsOfTheirDirection) {
  const UdpSocket zero(*hosts_, 0), one(*hosts_, 1), two(*hosts_, 2);
  zero.Send(1, 10);
  EXPECT_EQ(one.Receive(), 10);

  hosts_->SetFault(1, LinkFault::kToHost);
  zero.Send(1, 11);
  ASSERT_TRUE(WaitForDrops(0, 1));
  one.Send(0, 12);
  EXPECT_EQ(zero.Receive(), 12) << "the other direction";
  zero.Send(2, 13);
  EXPECT_EQ(two.Receive(), 13) << "another host";

  hosts_->SetFault(1, LinkFault::kFromHost);
  one.Send(0, 14);
  ASSERT_TRUE(WaitForDrops(1, 1));
  zero.Send(1, 15);
  EXPECT_EQ(one.Receive(), 15) << "packet 11 is lost";

  hosts_->SetFault(1, LinkFault::kBoth);
  one.Send(0, 16);
  zero.Send(1, 17);
  ASSERT_TRUE(WaitForDrops(1, 2));
  ASSERT_TRUE(WaitForDrops(0, 2));

  hosts_->SetFault(1, LinkFault::kNone);
  one.Send(0, 18);
  zero.Send(1, 19);
  EXPECT_EQ(zero.Receive(), 18);
  EXPECT_EQ(one.Receive(), 19);
}

TEST_F(EmulatedHostsTest, ProgramsRunOnTheirHostUntilKilled) {
  HostProcesses processes(*hosts_);
  const std::string output = dir_ / "output";
  // The shell's child outlives the shell and ignores the signal that ends the shell.
  auto shell = processes.Start(1, "/bin/sh",
                               {"-c",
                                "trap '' TERM; sleep 1000 & trap - TERM; "
                                "cat /proc/net/fib_trie; echo $GREETING; wait"},
                               {{"GREETING", "hello"}}, output);
  ASSERT_TRUE(shell.ok()) << shell.status();
  ASSERT_TRUE((*shell)->WaitForText("hello", kSecondsMax)) << (*shell)->Output();
  EXPECT_NE((*shell)->Output().find(EmulatedHosts::Address(1)), std::string::npos);
  EXPECT_EQ(processes.On(1).size(), 2u) << processes.ListOf(1);
  EXPECT_TRUE(processes.On(0).empty()) << processes.ListOf(0);

  (*shell)->Signal(SIGTERM);
  EXPECT_EQ((*shell)->Wait(kSecondsMax), 128 + SIGTERM);
  EXPECT_NE(processes.ListOf(1).find("sleep 1000"), std::string::npos) << processes.ListOf(1);
  EXPECT_FALSE(processes.WaitForNone(0));
  EXPECT_TRUE(processes.KillAll(1));
  EXPECT_EQ(processes.ListOf(1), "");
  EXPECT_TRUE(processes.WaitForNone(kSecondsMax));
}

}  // namespace
}  // namespace tandem
