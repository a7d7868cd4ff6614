// Collectives among hosts: network namespaces with limited and delayed links. The tests are skipped
// if the machine does not permit network namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "collective/cost/algorithm_probe.h"
#include "tests/support/emulated_hosts.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using enum AllReduceAlgorithm;

constexpr int kHosts = 2, kRanksPerHost = 2, kRanks = kHosts * kRanksPerHost;
constexpr int kPort = 4700;

class HostsTest : public ::testing::Test {
 protected:
  // Creates the emulated hosts. Returns false if the test must be skipped.
  bool Make(const HostLink& link) {
    auto made = EmulatedHosts::Create(kHosts, link);
    if (!made.ok()) {
      reason_ = "no emulated hosts here: " + std::string(made.status().message());
      return false;
    }
    net_ = std::move(*made);
    net_->Start();
    return true;
  }

  WorldConfig JoinOf(int r) const {
    WorldConfig join;
    join.rank = r;
    join.size = kRanks;
    join.job = "hosts";
    join.secret = "the secret of the test";
    join.rendezvous = rendezvous_;
    return join;
  }

  // Connects a world of all ranks. Each rank connects from the namespace of its host.
  World Connected(const HostCommunicatorConfig& config,
                  TransportKind carrier = TransportKind::kAuto) {
    World world(kRanks);
    OnEveryRank(kRanks, [&](int r) {
      const Status entered = net_->Enter(r / kRanksPerHost);
      ASSERT_TRUE(entered.ok()) << entered;
      WorldConfig join = JoinOf(r);
      join.listen_host = listen_ ? EmulatedHosts::Address(r / kRanksPerHost) : "";
      auto made = Connect(join, config, {carrier, size_t{16} << 20});
      if (!made.ok() && carrier == TransportKind::kSharedMemory) return;
      ASSERT_TRUE(made.ok()) << made.status();
      world[static_cast<size_t>(r)] = std::move(*made);
    });
    return world;
  }

  std::unique_ptr<EmulatedHosts> net_;
  std::string reason_;
  std::string rendezvous_ = absl::StrFormat("%s:%d", EmulatedHosts::Address(0), kPort);
  bool listen_ = false;  // whether ranks listen only at the address of their host
};

// Runs an allreduce on all ranks. Each element of a rank is its rank number + 1.
void AllReduceAll(World& world, size_t count) {
  OnEveryRank(kRanks, [&](int r) {
    std::vector<float> data(count, static_cast<float>(r + 1));
    const Status status =
        world[static_cast<size_t>(r)]
            ->AllReduce(data.data(), data.data(), count, DType::kF32, ReduceOp::kSum)
            ->Wait(In(30));
    ASSERT_TRUE(status.ok()) << status;
    for (const float value : data) ASSERT_EQ(value, 10.0f);
  });
}

TEST_F(HostsTest, HierarchySendsLessBetweenHosts) {
  if (!Make({})) GTEST_SKIP() << reason_;
  constexpr size_t kCount = 1 << 20, kBytes = 4 * kCount;
  // Runs an allreduce. Returns the bytes of the IP packets that both hosts sent, as a multiple of
  // the size of the buffer.
  const auto sent = [&](AllReduceAlgorithm algorithm) {
    World world = Connected({.rule = Always(algorithm, kRanksPerHost)});
    const int64_t before = net_->bytes_sent(0) + net_->bytes_sent(1);
    AllReduceAll(world, kCount);
    return static_cast<double>(net_->bytes_sent(0) + net_->bytes_sent(1) - before) / kBytes;
  };
  // With a ring of n ranks, each of the 2 hosts sends 2 (n-1)/n of the bytes of the buffer. With a
  // hierarchy of m hosts, each host sends 2 (m-1)/m.
  const double ring = sent(kRing), leaders = sent(kLeaders), shards = sent(kShards);
  EXPECT_GE(ring, 3.0);
  EXPECT_LT(ring, 3.3);
  EXPECT_GE(leaders, 2.0);
  EXPECT_LT(leaders, 2.2);
  EXPECT_GE(shards, 2.0);
  EXPECT_LT(shards, 2.2);
}

// The ranks find rank 0 in a shared directory, because the address of rank 0 is not known in
// advance.
TEST_F(HostsTest, RanksMeetInASharedFolder) {
  if (!Make({})) GTEST_SKIP() << reason_;
  std::string folder = (std::filesystem::temp_directory_path() / "tandem-hosts-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  rendezvous_ = "file://" + folder;
  listen_ = true;
  World world = Connected({});
  AllReduceAll(world, 1000);
  world.clear();
  std::filesystem::remove_all(folder);
}

// The costs that ranks on several hosts measure include the latency between the hosts.
TEST_F(HostsTest, AlgorithmsAreChosenForTheLinks) {
  HostLink link;
  // The delay is long, compared with the noise of a busy machine.
  link.delay = std::chrono::milliseconds(20);
  if (!Make(link)) GTEST_SKIP() << reason_;
  std::vector<std::vector<AlgorithmCost>> costs(kRanks);
  OnEveryRank(kRanks, [&](int r) {
    ASSERT_TRUE(net_->Enter(r / kRanksPerHost).ok());
    HostCommunicatorConfig config;
    config.rule.group = kRanksPerHost;
    auto probed = ProbeAlgorithms(JoinOf(r), config, 1 << 20, std::chrono::milliseconds(10));
    ASSERT_TRUE(probed.ok()) << probed.status();
    costs[static_cast<size_t>(r)] = *probed;
  });
  std::map<AllReduceAlgorithm, double> small;
  for (const AlgorithmCost& cost : costs[0]) small[cost.algorithm] = cost.line.Seconds(64);
  EXPECT_GE(small[kRing], 3 * 0.02) << "of its 6 steps 3 wait for the other host";
  EXPECT_LT(small[kDirect], small[kRing]) << "its messages cross at once";
  const auto choices = FastestOf(costs[0], {64}, kRanks, 1 << 20);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_NE(choices[0].algorithm, kRing);
}

TEST_F(HostsTest, LinksAreAsSlowAsTheySay) {
  HostLink link;
  link.bytes_per_second = 20e6;
  link.delay = std::chrono::milliseconds(20);
  if (!Make(link)) GTEST_SKIP() << reason_;
  World world = Connected({.rule = Always(kRing, 1)});
  Time start = SteadyNow();
  AllReduceAll(world, 4);  // 6 schedule steps around the ring; 3 of them between hosts
  EXPECT_GE(Seconds(SteadyNow() - start), 3 * 0.02);
  start = SteadyNow();
  AllReduceAll(world, 1 << 20);  // each host sends 6 MB
  EXPECT_GE(Seconds(SteadyNow() - start), 6 * (1 << 20) / 20e6);
}

TEST_F(HostsTest, HostsShareNoMemory) {
  if (!Make({})) GTEST_SKIP() << reason_;
  EXPECT_EQ(Connected({})[0]->name(), "tcp");
  EXPECT_EQ(Connected({}, TransportKind::kSharedMemory)[0], nullptr);
}

}  // namespace
}  // namespace tandem::collective
