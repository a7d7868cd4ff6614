// Tests how tandemruns join a job and talk to each other, in one process, without trainers.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <future>
#include <set>

#include "common/os/ports.h"
#include "deploy/launch/hosts/host_group.h"
#include "deploy/launch/hosts/host_link.h"
#include "deploy/launch/hosts/host_messages.h"
#include "tests/support/temp_dir.h"

namespace tandem::deploy {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Joined = StatusOr<std::unique_ptr<HostGroup>>;

constexpr Duration kWaitMax = seconds(20);

HostGroupOptions Options(int port, int hosts = 2) {
  HostGroupOptions options;
  options.hosts = hosts;
  options.meeting.job = "test";
  options.meeting.secret = "a secret of the test";
  options.meeting.rendezvous = "tcp://127.0.0.1:" + std::to_string(port);
  options.version = "1";
  options.settings = {"--mode=collective", "--nproc=2"};
  options.ports = 3;
  options.timeout = seconds(10);
  options.progress = [](const std::string&) {};
  return options;
}

std::future<Joined> JoinLater(const HostGroupOptions& options) {
  return std::async(std::launch::async, [options] { return HostGroup::Join(options); });
}

struct Pair {
  std::unique_ptr<HostGroup> leading, other;
};

// Returns two joined groups that have begun their job.
Pair Join(const HostGroupOptions& options,
          const JobDirector::Settings& settings = {.host_of = {0, 1}}) {
  auto first = JoinLater(options), second = JoinLater(options);
  Joined a = first.get(), b = second.get();
  EXPECT_TRUE(a.ok()) << a.status();
  EXPECT_TRUE(b.ok()) << b.status();
  Pair pair{*std::move(a), *std::move(b)};
  if (!pair.leading->leads()) std::swap(pair.leading, pair.other);
  EXPECT_TRUE(pair.leading->leads());
  pair.leading->Begin(settings);
  pair.other->Begin(settings);
  return pair;
}

// Steps both groups until `done` accepts an order for the other host.
bool StepUntil(HostGroup& group, HostGroup* other,
               const std::function<bool(const JobOrder&)>& done) {
  const Time deadline = SteadyNow() + kWaitMax;
  while (SteadyNow() < deadline) {
    if (other != nullptr) (void)other->Step(SteadyNow());
    for (const JobOrder& order : group.Step(SteadyNow())) {
      if (done(order)) return true;
    }
    std::vector<pollfd> fds = group.Sockets();
    poll(fds.data(), fds.size(), 10);
  }
  return false;
}

TEST(HostGroupTest, HostsGetNumbersAddressesAndPorts) {
  const int port = *FreePorts("127.0.0.1", 1);
  const Pair pair = Join(Options(port));
  const HostLayout &mine = pair.leading->layout(), &other = pair.other->layout();
  EXPECT_EQ(mine.number, 0);
  EXPECT_EQ(other.number, 1);
  ASSERT_EQ(other.hosts.size(), 2u);
  EXPECT_EQ(other.hosts[0].address, "127.0.0.1");
  EXPECT_EQ(other.hosts[1].address, "127.0.0.1");
  EXPECT_FALSE(other.replaces);
  // The two hosts are one machine, so their ports must differ.
  EXPECT_GE(std::abs(other.hosts[1].first_port - other.hosts[0].first_port), 3);
  EXPECT_EQ(mine.hosts[1].first_port, other.hosts[1].first_port);
}

TEST(HostGroupTest, ManyHostsOfOneMachineGetFreePorts) {
  constexpr int kMany = 24;
  const HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1), kMany);
  std::vector<std::future<Joined>> later;
  for (int i = 0; i < kMany; ++i) later.push_back(JoinLater(options));
  std::vector<Joined> joined;
  for (std::future<Joined>& group : later) joined.push_back(group.get());
  std::set<int> first_ports;
  for (const Joined& group : joined) {
    ASSERT_TRUE(group.ok()) << group.status();
    const HostLayout& layout = (*group)->layout();
    const int first = layout.hosts[static_cast<size_t>(layout.number)].first_port;
    first_ports.insert(first);
    for (int port = first; port < first + options.ports; ++port) {
      EXPECT_TRUE(BindPort("127.0.0.1", port).ok()) << "host " << layout.number;
    }
  }
  ASSERT_EQ(first_ports.size(), static_cast<size_t>(kMany));
  for (auto at = first_ports.begin(); std::next(at) != first_ports.end(); ++at) {
    EXPECT_GE(*std::next(at) - *at, options.ports);
  }
}

TEST(HostGroupTest, AFileCanBeTheRendezvous) {
  const TempDir dir;
  HostGroupOptions options = Options(0);
  options.meeting.rendezvous = "file://" + dir.path();
  options.meeting.listen_host = "127.0.0.1";
  const Pair pair = Join(options);
  EXPECT_EQ(pair.other->layout().number, 1);
}

TEST(HostGroupTest, ReportsAndOrdersArrive) {
  const Pair pair = Join(Options(*FreePorts("127.0.0.1", 1)));
  JobReport report;
  report.ended.push_back({.name = "trainer 1", .rank = 1, .failed = true});
  report.ended[0].failure.text = "it failed";
  report.ended[0].failure.last_lines = {"one", "two"};
  report.ended[0].failure.exit.code = 3;
  pair.other->Report(report);
  (void)pair.other->Step(SteadyNow());
  Failure failure;
  ASSERT_TRUE(StepUntil(*pair.leading, pair.other.get(), [&](const JobOrder& order) {
    failure = order.failure;
    return order.kind == JobOrder::Kind::kFailed;
  }));
  EXPECT_EQ(failure.text, "it failed");
  EXPECT_EQ(failure.last_lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(failure.exit.code, 3);
}

TEST(HostGroupTest, ALostHostIsAFailureAndAHostThatEndsIsNot) {
  for (const bool in_order : {true, false}) {
    Pair pair = Join(Options(*FreePorts("127.0.0.1", 1)));
    if (in_order) pair.other->Leave(seconds(1));
    pair.other.reset();
    if (in_order) {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(pair.leading->Step(SteadyNow()).empty());
        poll(nullptr, 0, 5);
      }
      continue;
    }
    EXPECT_TRUE(StepUntil(*pair.leading, nullptr, [](const JobOrder& order) {
      return order.kind == JobOrder::Kind::kFailed && order.failure.role == "host" &&
             order.failure.rank == 1;
    }));
  }
}

TEST(HostGroupTest, TheOtherHostsNoticeThatTheLeadingOneIsLost) {
  Pair pair = Join(Options(*FreePorts("127.0.0.1", 1)));
  // Also a leading host that says goodbye is lost, because it has not ended the job.
  pair.leading->Leave(milliseconds(10));
  pair.leading.reset();
  EXPECT_TRUE(StepUntil(*pair.other, nullptr, [](const JobOrder& order) {
    return order.kind == JobOrder::Kind::kFailed && order.failure.role == "host" &&
           order.failure.rank == 0;
  }));
}

TEST(HostGroupTest, ASilentHostIsLost) {
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  options.silence = milliseconds(400);
  const Pair pair = Join(options);
  const Time begin = SteadyNow();
  // The other group is not stepped, like a process that SIGSTOP has stopped.
  std::string text;
  ASSERT_TRUE(StepUntil(*pair.leading, nullptr, [&](const JobOrder& order) {
    text = order.failure.text;
    return order.kind == JobOrder::Kind::kFailed;
  }));
  EXPECT_GE(SteadyNow() - begin, milliseconds(300));
  EXPECT_NE(text.find("has sent nothing for 0."), std::string::npos) << text;
}

TEST(HostGroupTest, PingsKeepAnIdleLink) {
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  options.silence = milliseconds(200);
  const Pair pair = Join(options);
  const Time until = SteadyNow() + seconds(1);
  while (SteadyNow() < until) {
    EXPECT_TRUE(pair.leading->Step(SteadyNow()).empty());
    EXPECT_TRUE(pair.other->Step(SteadyNow()).empty());
    poll(nullptr, 0, 5);
  }
}

TEST(HostGroupTest, WrongHostsAreRefusedByName) {
  struct Case {
    std::function<void(HostGroupOptions&)> change;
    StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](auto& o) { o.meeting.secret = "another"; }, StatusCode::kPermissionDenied,
       "another secret"},
      {[](auto& o) { o.meeting.job = "other"; }, StatusCode::kPermissionDenied, "another job"},
      {[](auto& o) { o.settings[1] = "--nproc=3"; }, StatusCode::kFailedPrecondition,
       "runs tandemrun with --nproc=3, the leading one with --nproc=2 [TD3015]"},
  };
  for (const Case& wrong : cases) {
    HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
    auto leading = JoinLater(options);
    const Time deadline = SteadyNow() + kWaitMax;
    while (BindPort("127.0.0.1", std::stoi(options.meeting.rendezvous.substr(16))).ok() &&
           SteadyNow() < deadline) {
      poll(nullptr, 0, 5);
    }
    HostGroupOptions changed = options;
    wrong.change(changed);
    const Status status = HostGroup::Join(changed).status();
    EXPECT_EQ(status.code(), wrong.code) << status;
    EXPECT_NE(std::string(status.message()).find(wrong.text), std::string::npos) << status;
    Joined right = HostGroup::Join(options);  // the refused one has taken no place
    EXPECT_TRUE(right.ok()) << right.status();
    EXPECT_TRUE(leading.get().ok());
  }
}

TEST(HostGroupTest, AFullJobAcceptsNoFurtherHost) {
  const HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  const Pair pair = Join(options);
  auto third = JoinLater(options);
  const Time deadline = SteadyNow() + kWaitMax;
  while (third.wait_for(milliseconds(5)) != std::future_status::ready && SteadyNow() < deadline) {
    EXPECT_TRUE(pair.leading->Step(SteadyNow()).empty());
    EXPECT_TRUE(pair.other->Step(SteadyNow()).empty());
  }
  const Joined joined = third.get();
  EXPECT_EQ(joined.status().code(), StatusCode::kAlreadyExists) << joined.status();
}

// The leading host has not noticed yet that the host has left the earlier run.
TEST(HostGroupTest, AHostOfAnEarlierRunWaitsForItsPlace) {
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  Pair pair = Join(options, {.host_of = {0, 1}, .ranks_least = 1, .ranks_return = true});
  options.again = true;
  auto next = JoinLater(options);
  const Time refused_until = SteadyNow() + milliseconds(700);  // more than one attempt
  const Time deadline = SteadyNow() + kWaitMax;
  while (next.wait_for(milliseconds(5)) != std::future_status::ready && SteadyNow() < deadline) {
    if (SteadyNow() > refused_until) pair.other.reset();
    (void)pair.leading->Step(SteadyNow());
    if (pair.other != nullptr) (void)pair.other->Step(SteadyNow());
  }
  EXPECT_EQ(pair.other, nullptr) << "it joined a full job";
  const Joined joined = next.get();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE((*joined)->layout().replaces);
}

// The data of a host's pservers belong to its number. Hosts without data get the other numbers.
TEST(HostGroupTest, HostsWithDataOfAnEarlierRunKeepTheirNumbers) {
  const int port = *FreePorts("127.0.0.1", 1);
  std::vector<std::future<Joined>> joining;
  for (const int kept : {2, -1, 0}) {
    HostGroupOptions options = Options(port, 3);
    options.kept = kept;
    joining.push_back(JoinLater(options));
  }
  std::vector<std::unique_ptr<HostGroup>> groups;
  for (auto& each : joining) {
    Joined joined = each.get();
    ASSERT_TRUE(joined.ok()) << joined.status();
    groups.push_back(*std::move(joined));
  }
  EXPECT_EQ(groups[0]->layout().number, 2);
  EXPECT_EQ(groups[1]->layout().number, 1);
  EXPECT_EQ(groups[2]->layout().number, 0);
  int leaders = 0;
  for (const auto& group : groups) {
    leaders += group->leads();
    EXPECT_EQ(group->layout().leader, groups[0]->layout().leader);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(group->layout().hosts[i].first_port, groups[0]->layout().hosts[i].first_port);
    }
  }
  EXPECT_EQ(leaders, 1);
}

TEST(HostGroupTest, TwoHostsWithTheDataOfOneAreRefused) {
  const int port = *FreePorts("127.0.0.1", 1);
  HostGroupOptions options = Options(port);
  options.kept = 1;
  auto leading = JoinLater(options);
  const Time deadline = SteadyNow() + kWaitMax;
  while (BindPort("127.0.0.1", port).ok() && SteadyNow() < deadline) {
  }
  options.timeout = seconds(1);
  const Status refused = HostGroup::Join(options).status();
  EXPECT_EQ(refused.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(refused.message()).find("data of host 1 of an earlier run"),
            std::string::npos)
      << refused;
  EXPECT_EQ(leading.get().status().code(), StatusCode::kDeadlineExceeded);
}

// The trainers know the addresses of all pservers and standbys.
TEST(HostGroupTest, AHostWithPserversIsReplacedByOneWithItsAddress) {
  JobDirector::Settings settings{.host_of = {0, 1}, .pserver_hosts = {0}};
  settings.members = {{{0, 1}, {"127.0.0.1:1", "127.0.0.1:2"}}};
  settings.max_restarts = 5;
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  options.timeout = seconds(3);
  Pair pair = Join(options, settings);
  pair.other.reset();
  const auto is_lost = [](const JobOrder& order) { return order.event == "lost"; };
  ASSERT_TRUE(StepUntil(*pair.leading, nullptr, is_lost));
  for (const char* address : {"127.0.0.9", "127.0.0.1"}) {
    options.meeting.listen_host = address;
    auto next = JoinLater(options);
    const Time deadline = SteadyNow() + kWaitMax;
    while (next.wait_for(milliseconds(5)) != std::future_status::ready && SteadyNow() < deadline) {
      (void)pair.leading->Step(SteadyNow());
    }
    const Joined joined = next.get();
    const bool same = std::string(address) == "127.0.0.1";
    EXPECT_EQ(joined.status().code(), same ? StatusCode::kOk : StatusCode::kFailedPrecondition);
  }
}

// Clients find the pservers of a job with standbys only by IPv4 addresses. The leading host, which
// the rendezvous names, gets the address at which the others reach it.
TEST(HostGroupTest, AJobWithStandbysNeedsAddressesOfAllHosts) {
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1));
  options.numeric = true;
  options.meeting.rendezvous.replace(std::string("tcp://").size(), std::string("127.0.0.1").size(),
                                     "localhost");
  const Pair pair = Join(options);
  EXPECT_EQ(pair.leading->layout().hosts[0].address, "127.0.0.1");
  EXPECT_EQ(pair.other->layout().hosts[0].address, "127.0.0.1");

  HostGroupOptions leading = Options(*FreePorts("127.0.0.1", 1));
  leading.numeric = true;
  leading.timeout = seconds(2);
  HostGroupOptions named = leading;
  named.meeting.listen_host = "node-b.example";
  auto first = JoinLater(named), second = JoinLater(named);
  const Joined a = first.get(), b = second.get();
  const std::string both = ToString(a.status()) + ToString(b.status());
  EXPECT_NE(both.find("has --listen_host=node-b.example [TD1009]"), std::string::npos) << both;
}

TEST(HostGroupTest, MissingHostsEndTheWait) {
  HostGroupOptions options = Options(*FreePorts("127.0.0.1", 1), 3);
  options.timeout = milliseconds(300);
  const Status status = HostGroup::Join(options).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(status.message()).find("2 of 3 hosts did not join"), std::string::npos)
      << status;
}

TEST(HostMessagesTest, BytesOfOthersAreNoMessage) {
  EXPECT_EQ(DecodeHostMessage("").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeHostMessage("\xff\xff\xff").status().code(), StatusCode::kDataLoss);
  JobOrder order{.kind = JobOrder::Kind::kWorld, .version = 7, .members = {1, 5}, .over = true};
  const StatusOr<HostMessage> read = DecodeHostMessage(Encode(order));
  ASSERT_TRUE(read.ok());
  const auto& same = std::get<JobOrder>(*read);
  EXPECT_EQ(same.version, 7);
  EXPECT_EQ(same.members, (std::vector<int>{1, 5}));
  EXPECT_TRUE(same.over);
}

// A connection that stays in one process, with its bytes in the hands of the test.
class HostLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    int others[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, others), 0);
    dialler_ = std::make_unique<HostLink>(Fd(ends[0]), HostLink::Side::kDialler, key_, hours(1),
                                          SteadyNow());
    listener_ = std::make_unique<HostLink>(Fd(others[0]), HostLink::Side::kListener, key_, hours(1),
                                           SteadyNow());
    wires_[0].Reset(ends[1]);
    wires_[1].Reset(others[1]);
  }

  // Carries bytes between the two ends; `change` may change them.
  void Carry(const std::function<void(std::string&)>& change = nullptr) {
    for (int round = 0; round < 20; ++round) {
      first_ = dialler_->Step(SteadyNow());
      second_ = listener_->Step(SteadyNow());
      for (const int from : {0, 1}) {
        char bytes[65536];
        const ssize_t n = recv(wires_[from].get(), bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n <= 0) continue;
        std::string text(bytes, static_cast<size_t>(n));
        seen_ += text;
        if (change) change(text);
        ASSERT_EQ(send(wires_[1 - from].get(), text.data(), text.size(), 0),
                  static_cast<ssize_t>(text.size()));
      }
    }
  }

  const LinkKey key_ = LinkKey::Of("test", "secret");
  std::unique_ptr<HostLink> dialler_, listener_;
  Fd wires_[2];
  std::string seen_;  // all bytes on the wire
  Status first_, second_;
};

TEST_F(HostLinkTest, FramesArriveAndAreNotReadable) {
  Carry();
  ASSERT_TRUE(dialler_->established() && listener_->established()) << first_ << second_;
  dialler_->Send("a frame for the other end");
  listener_->Send(std::string(100000, 'x'));
  Carry();
  EXPECT_EQ(listener_->Take().value_or(""), "a frame for the other end");
  EXPECT_EQ(dialler_->Take().value_or("").size(), 100000u);
  EXPECT_FALSE(listener_->Take().has_value());
  EXPECT_EQ(seen_.find("a frame"), std::string::npos);
}

TEST_F(HostLinkTest, AlteredBytesAreNoticed) {
  Carry();
  dialler_->Send("a frame for the other end");
  Carry([](std::string& text) { text.back() ^= 1; });
  EXPECT_FALSE(listener_->Take().has_value());
  EXPECT_EQ(second_.code(), StatusCode::kDataLoss) << second_;
}

TEST_F(HostLinkTest, AClosedConnectionIsNamed) {
  Carry();
  wires_[0].Reset();
  EXPECT_EQ(dialler_->Step(SteadyNow()).code(), StatusCode::kUnavailable);
  EXPECT_EQ(dialler_->Step(SteadyNow()).code(), StatusCode::kUnavailable) << "it stays lost";
}

}  // namespace
}  // namespace tandem::deploy
