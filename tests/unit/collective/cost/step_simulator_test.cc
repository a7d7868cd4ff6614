// Compares the simulation of schedules with cases computed by hand and with formulas of the
// literature. Also tests the choice of algorithms.
#include "collective/cost/step_simulator.h"
#include "collective/cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collective/cost/algorithm_probe.h"
#include "collective/cost/cost_probe.h"
#include "collective/schedule/algorithms.h"
#include "collective/schedule/halving.h"
#include "collective/schedule/hierarchy.h"
#include "collective/schedule/ring.h"
#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;

using enum AllReduceAlgorithm;

// A model of one host, with numbers that are easy to add.
CostModel Plain() {
  CostModel model;
  model.thread = {.start = 1, .message = 2, .byte = 0.5, .add_byte = 0.25};
  model.inside.latency = 10;
  return model;
}

std::vector<double> PairEnds(const CostModel& model, const RankSkew& starts = {}) {
  const auto pair = [](int rank) { return PairAllReduce(rank, 8); };
  const auto ends = Walk(pair, {2, 2}, model, starts, /*pieces=*/1);
  EXPECT_TRUE(ends.ok()) << ends.status();
  return ends.ok() ? *ends : std::vector<double>();
}

TEST(StepSimulatorTest, APairByHand) {
  // Start 1, send 2 + 8 * 0.5, latency 10, receive 2 + 8 * 0.5, add 8 * 0.25. The sum is 25.
  EXPECT_THAT(PairEnds(Plain()), ElementsAre(25, 25));
}

TEST(StepSimulatorTest, AWireCarriesOneThingAfterAnother) {
  CostModel model;
  model.inside = {.latency = 10, .byte = 1};
  const auto gather = [](int rank) { return DirectAllGather(rank, 3, 4); };
  const auto ends = Walk(gather, {3, 3}, model, {}, 1);
  ASSERT_TRUE(ends.ok()) << ends.status();
  // Each rank sends two messages (4 + 4) and receives two messages. The last byte arrives the
  // latency of 10 after it was sent.
  EXPECT_THAT(*ends, ElementsAre(18, 18, 18));
}

// In a ring each schedule step waits for the previous one. In an all-to-all, messages to different
// ranks do not wait for each other; they only queue at the sender and at the receiver.
TEST(StepSimulatorTest, HalvesOfAnAllReduceAndAllToAllByHand) {
  CostModel model;
  model.inside = {.latency = 10, .byte = 1};
  constexpr int kRanks = 4;
  constexpr size_t kCount = 16, kChunk = kCount * 4 / kRanks;  // kChunk is 16 bytes
  const auto walk = [&](const std::function<Schedule(int)>& table) {
    const auto ends = Walk(table, {kRanks, kRanks}, model, {}, 1);
    EXPECT_TRUE(ends.ok()) << ends.status();
    return ends.ok() ? *ends : std::vector<double>();
  };
  const double step = 10 + kChunk;
  EXPECT_THAT(walk([](int r) { return RingReduceScatter(r, kRanks, kCount, 4); }), Each(3 * step));
  EXPECT_THAT(walk([](int r) { return RingAllGather(r, kRanks, kCount, 4); }), Each(3 * step));
  EXPECT_THAT(walk([](int r) { return RingAllReduce(r, kRanks, kCount, 4); }), Each(6 * step));
  EXPECT_THAT(walk([](int r) { return PairwiseAllToAll(r, kRanks, kChunk); }),
              Each(::testing::Le(10 + 4.0 * kChunk)));
}

TEST(StepSimulatorTest, ASlowRankByHand) {
  // Rank 1 takes 3 to start and 18 to send, so its message arrives at 31. Rank 0 takes 8 to receive
  // and add this message. Rank 1 takes 24 to receive and add the message of rank 0, beginning at
  // 21.
  EXPECT_THAT(PairEnds(Plain(), {.slow_rank = 1, .slow_factor = 3}), ElementsAre(39, 45));
}

TEST(StepSimulatorTest, ALateRankByHand) {
  EXPECT_THAT(PairEnds(Plain(), {.start = {0, 100}}), ElementsAre(125, 115));
}

TEST(StepSimulatorTest, ThreadsTakeTurnsOnACore) {
  CostModel model = Plain();
  model.inside.latency = 0;
  model.cores = 1;
  // Each rank takes 6 to send, and 8 to receive and add. From time 1 on, both ranks share one core.
  EXPECT_THAT(PairEnds(model), ElementsAre(29, 21));
  model.cores = 2;
  EXPECT_THAT(PairEnds(model), ElementsAre(15, 15));
}

TEST(StepSimulatorTest, PiecesGoOnWhileTheRestIsOnItsWay) {
  CostModel model;
  model.inside.byte = 1;
  const auto chain = [](int rank) { return ChainBroadcast(rank, 5, 0, 400); };
  const auto whole = Walk(chain, {5, 5}, model, {}, 1), cut = Walk(chain, {5, 5}, model, {}, 4);
  ASSERT_TRUE(whole.ok() && cut.ok());
  EXPECT_THAT(*whole, ElementsAre(0, 400, 800, 1200, 1600));
  EXPECT_THAT(*cut, ElementsAre(0, 400, 500, 600, 700));
}

TEST(StepSimulatorTest, TablesThatDoNotFitAreFound) {
  const auto both_receive = [](int rank) { return PairReduce(rank, /*root=*/rank, 8); };
  EXPECT_EQ(Walk(both_receive, {2, 2}, Plain()).status().code(), StatusCode::kInternal);
}

// Each schedule step costs 2 messages, one latency, and the time of its bytes (Thakur et al. 2005).
TEST(StepSimulatorTest, RingAndHalvingAreTheirFormulas) {
  CostModel model = Plain();
  model.inside.byte = 3;
  const double alpha = 2 * model.thread.message + model.inside.latency;
  const double beta = 2 * model.thread.byte + model.inside.byte;
  for (const int n : {2, 4, 8, 16}) {
    const size_t count = 1600;
    const double bytes = 4.0 * count, share = (n - 1.0) / n;
    const double moved =
        model.thread.start + 2 * share * bytes * beta + share * bytes * model.thread.add_byte;
    const auto ring = [&](int r) { return RingAllReduce(r, n, count, 4); };
    const auto halving = [&](int r) { return HalvingDoublingAllReduce(r, n, count, 4); };
    const auto ring_ends = Walk(ring, {n, n}, model, {}, 1);
    const auto halving_ends = Walk(halving, {n, n}, model, {}, 1);
    ASSERT_TRUE(ring_ends.ok() && halving_ends.ok());
    EXPECT_THAT(*ring_ends, Each(DoubleNear(moved + 2 * (n - 1) * alpha, 1e-6))) << n;
    // The lower rank of a pair can forward its half before it has received the other half, so only
    // the last rank ends at the time of the formula.
    const double halved = moved + 2 * std::log2(n) * alpha;
    EXPECT_NEAR(*std::max_element(halving_ends->begin(), halving_ends->end()), halved, 1e-6) << n;
  }
}

// The ranks of a host share one wire and send one after another.
TEST(StepSimulatorTest, ShardsOfTwoHostsByHand) {
  CostModel model;
  model.inside = {.latency = 1, .byte = 0.5};
  model.between = {.latency = 1000, .byte = 2};
  const auto shards = [](int rank) {
    return HierarchicalAllReduce(HierarchyForm::kShards, rank, 4, 2, 80, 1);
  };
  const auto ends = Walk(shards, {4, 2}, model, {}, 1);
  ASSERT_TRUE(ends.ok()) << ends.status();
  // First, half of the 80 bytes travels inside each host (1 + 20). Between the hosts, a quarter
  // travels twice, each time 40 on the wire and a latency of 1000; the second rank of a host is 40
  // later. At last, half of the bytes travels inside each host again. The last rank ends after all
  // these times.
  const double inside = 1 + 20, between = 2 * (40 + 1000) + 40;
  EXPECT_DOUBLE_EQ(*std::max_element(ends->begin(), ends->end()), 2 * inside + between);
}

CostModel TwoLevels() {
  CostModel model;
  model.thread = {.start = 3e-6, .message = 1e-6, .byte = 2e-10, .add_byte = 1e-10};
  model.inside = {.latency = 2e-6, .byte = 1e-10};
  model.between = {.latency = 2e-5, .byte = 7e-10};
  return model;
}

StatusOr<std::vector<double>> WalkAll(AllReduceAlgorithm algorithm, const RankLayout& layout,
                                      size_t count, const CostModel& model) {
  return Walk(
      [&](int rank) {
        return AllReduceSchedule(algorithm, rank, layout.ranks, layout.ranks_per_host, count, 4);
      },
      layout, model);
}

// The ranks of a host get the same times from a simulation of only this host as from a simulation
// of all hosts.
TEST(StepSimulatorTest, OneHostStandsForAllOfARing) {
  CostModel model = TwoLevels();
  for (const int cores : {0, 1}) {
    model.cores = cores;
    for (const RankLayout layout : {RankLayout{8, 2}, RankLayout{12, 3}, RankLayout{6, 1}}) {
      const size_t count = 240000, g = static_cast<size_t>(layout.ranks_per_host);
      const auto one = SimulateAllReduce(kRing, layout, 1, count, 4, model);
      const auto all = WalkAll(kRing, layout, count, model);
      ASSERT_TRUE(one.ok() && all.ok());
      ASSERT_EQ(one->size(), g);
      for (size_t r = 0; r < all->size(); ++r) {
        EXPECT_NEAR((*all)[r], (*one)[r % g], 1e-12) << "rank " << r << " of " << layout.ranks;
      }
    }
  }
}

TEST(StepSimulatorTest, OneHostStandsForAllOfManyWithinAFewPercent) {
  const RankLayout layout = {512, 8};
  for (const AllReduceAlgorithm algorithm : {kLeaders, kShards}) {
    const size_t count = 512 << 10;
    const auto one = SimulateAllReduce(algorithm, layout, 8, count, 4, TwoLevels());
    const auto all = WalkAll(algorithm, layout, count, TwoLevels());
    ASSERT_TRUE(one.ok() && all.ok());
    EXPECT_EQ(one->size(), 8u);
    const double last = *std::max_element(all->begin(), all->end());
    EXPECT_NEAR(*std::max_element(one->begin(), one->end()), last, 0.05 * last) << Name(algorithm);
  }
}

TEST(StepSimulatorTest, ThousandsOfRanks) {
  CostModel model;
  model.between = {.latency = 2e-5, .byte = 8e-11};
  const RankLayout layout = {4096, 1};
  const auto ring = SimulateAllReduce(kRing, layout, 1, 4096, 4, model);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_NEAR(ring->at(0), 2 * 4095 * (2e-5 + 4 * 8e-11), 1e-9);
  const auto halving = SimulateAllReduce(kHalving, layout, 1, 4096, 4, model);
  ASSERT_TRUE(halving.ok()) << halving.status();
  EXPECT_LT(halving->at(0), ring->at(0) / 100) << "24 messages instead of 8190";
  const auto slow =
      SimulateAllReduce(kRing, layout, 1, 4096, 4, model, {.slow_rank = 7, .slow_factor = 2});
  EXPECT_EQ(slow.status().code(), StatusCode::kResourceExhausted) << "33 million steps";
}

TEST(StepSimulatorTest, DirectAddsUpBehindIt) {
  const CostModel model = Plain();
  const auto ends = SimulateAllReduce(kDirect, {3, 3}, 1, 4, 1, model);
  CostModel free = model;
  free.thread.add_byte = 0;
  const auto moved = SimulateAllReduce(kDirect, {3, 3}, 1, 4, 1, free);
  ASSERT_TRUE(ends.ok() && moved.ok());
  EXPECT_DOUBLE_EQ(ends->at(0) - moved->at(0), 2 * 4 * 0.25);
}

TEST(AlgorithmsTest, TheCommunicatorsChoice) {
  AllReduceRule rule;
  EXPECT_EQ(ChooseAllReduce(rule, 2, 256 << 10), kPair);
  EXPECT_EQ(ChooseAllReduce(rule, 2, (256 << 10) + 4), kRing);
  EXPECT_EQ(ChooseAllReduce(rule, 8, 4 << 10), kDirect);
  EXPECT_EQ(ChooseAllReduce(rule, 9, 4 << 10), kRing);
  rule.group = 4;
  EXPECT_EQ(ChooseAllReduce(rule, 8, 1 << 20), kShards);
  EXPECT_EQ(ChooseAllReduce(rule, 4, 1 << 20), kRing);
  rule.form = HierarchyForm::kLeaders;
  EXPECT_EQ(ChooseAllReduce(rule, 8, 1 << 20), kLeaders);
  rule.tree_order = true;
  EXPECT_EQ(ChooseAllReduce(rule, 8, 1 << 20), kHalving);
}

TEST(AlgorithmsTest, ChoicesComeFirst) {
  AllReduceRule rule;
  rule.choices = {{1000, kRing}, {1 << 20, kHalving}};
  EXPECT_EQ(ChooseAllReduce(rule, 2, 1000), kRing);
  EXPECT_EQ(ChooseAllReduce(rule, 2, 1001), kHalving);
  EXPECT_EQ(ChooseAllReduce(rule, 8, 1 << 20), kHalving);
  EXPECT_EQ(ChooseAllReduce(rule, 8, (1 << 20) + 1), kRing) << "the rule";
  EXPECT_EQ(ChooseAllReduce(Always(kDirect, 1), 8, 1000), kDirect);
  rule.tree_order = true;
  EXPECT_EQ(ChooseAllReduce(rule, 8, 5000), kHalving);
  rule.choices = {{1 << 20, kRing}};
  EXPECT_EQ(ChooseAllReduce(rule, 8, 5000), kHalving);
}

TEST(AlgorithmsTest, TheFastestOfEachSize) {
  const AlgorithmCost pair = {kPair, {{{8, 10}, {1000, 110}}}};
  const AlgorithmCost ring = {kRing, {{{8, 50}, {1000, 60}, {2000, 160}}}};
  EXPECT_DOUBLE_EQ(ring.line.Seconds(504), 55);
  EXPECT_DOUBLE_EQ(ring.line.Seconds(1500), 110);
  EXPECT_DOUBLE_EQ(ring.line.Seconds(3000), 260) << "as between the last two";
  EXPECT_DOUBLE_EQ(ring.line.Seconds(0), 50 - 8 * 10.0 / 992);
  const AlgorithmCost odd = {kHalving, {{{8, 50}, {1000, 40}}}};
  EXPECT_DOUBLE_EQ(odd.line.Seconds(500), 50) << "less takes no longer";
  const auto choices = FastestOf({pair, ring}, {900, 8, 300, 4000}, 2, 0);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].bytes_max, 300u);
  EXPECT_EQ(choices[0].algorithm, kPair);
  EXPECT_EQ(choices[1].bytes_max, 4000u);
  EXPECT_EQ(choices[1].algorithm, kRing);
  // FastestOf chooses the direct algorithm only if the memory limit allows buffers for all ranks.
  const AlgorithmCost direct = {kDirect, {{{8, 1}, {1000, 2}}}};
  EXPECT_EQ(FastestOf({direct, ring}, {100}, 4, 400)[0].algorithm, kDirect);
  EXPECT_EQ(FastestOf({direct, ring}, {100}, 4, 399)[0].algorithm, kRing);
}

// The direct algorithm has no cost line if its scratch memory allows only one size, because a line
// needs two points.
TEST(AlgorithmsTest, ProbedAtTwoSizesAtLeast) {
  EXPECT_THAT(ProbeSizes(kDirect, 256, 1 << 20), ElementsAre(8, 64 << 10));
  EXPECT_THAT(ProbeSizes(kDirect, 257, 1 << 20), ElementsAre());
  EXPECT_THAT(ProbeSizes(kRing, 4096, 8), ElementsAre(8, 64 << 10));
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    for (int ranks = 2; ranks < 5000; ++ranks) {
      const std::vector<size_t> sizes = ProbeSizes(algorithm, ranks, 64 << 20);
      ASSERT_TRUE(sizes.empty() ? algorithm == kDirect : sizes.size() >= 2) << ranks;
    }
  }
}

// All ranks must get the same cost of each algorithm. The result must have every algorithm that
// these ranks can use.
TEST(AlgorithmsTest, ProbedAmongTheRanksOfAJob) {
  const Door door = BindLoopbackSocket();
  std::vector<std::vector<AlgorithmCost>> costs(4);
  OnEveryRank(4, [&](int r) {
    HostCommunicatorConfig config;
    config.rule.group = 2;
    WorldConfig world = TestWorld(door, r, 4);
    if (r == 0) {
      // The ranks join a world several times, so rank 0 binds a new socket each time instead of
      // using the socket of `door`.
      ::close(door.fd);
      world.listen_fd = -1;
    }
    auto probed = ProbeAlgorithms(world, config, 4 << 20, std::chrono::milliseconds(8));
    ASSERT_TRUE(probed.ok()) << probed.status();
    costs[static_cast<size_t>(r)] = *probed;
  });
  std::vector<AllReduceAlgorithm> algorithms;
  for (const AlgorithmCost& cost : costs[0]) algorithms.push_back(cost.algorithm);
  EXPECT_THAT(algorithms, ElementsAre(kDirect, kRing, kHalving, kLeaders, kShards));
  for (size_t a = 0; a < costs[0].size(); ++a) {
    // The probe measures the direct algorithm only for sizes at which the buffers of all ranks fit
    // into its memory.
    EXPECT_EQ(costs[0][a].line.points.size(), algorithms[a] == kDirect ? 3u : 4u);
    for (const auto& others : costs) EXPECT_EQ(others[a].line.points, costs[0][a].line.points);
    EXPECT_GT(costs[0][a].line.Seconds(16 << 20), 0);
  }
}

TEST(AlgorithmsTest, AlwaysTheSame) {
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    for (const int size : {2, 4, 12}) {
      if (!Serves(algorithm, size, 2)) continue;
      for (const size_t bytes : {size_t{4}, size_t{1} << 20}) {
        EXPECT_EQ(ChooseAllReduce(Always(algorithm, 2), size, bytes), algorithm);
      }
    }
  }
  EXPECT_FALSE(Serves(kPair, 3, 1));
  EXPECT_FALSE(Serves(kShards, 6, 4));
  EXPECT_FALSE(Serves(kLeaders, 4, 4));
}

// The fitted costs depend on the machine. Therefore the test checks only their signs.
TEST(CostProbeTest, FitsSomethingThatCosts) {
  const auto model = ProbeTcp(std::chrono::milliseconds(20));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GE(model->thread.byte, 0) << "0: a busy machine was slower with less";
  EXPECT_GE(model->thread.start, 0);
  EXPECT_GE(model->inside.latency, 0);
  EXPECT_GT(model->thread.message + model->inside.latency + model->thread.start, 0);
  EXPECT_GE(model->cores, 1);
  EXPECT_GT(ProbeAdding(), 0);
}

TEST(CostProbeTest, SharedMemoryIsALineBehindWhatIsPosted) {
  auto world = LocalWorld::Join(2, {}, {TransportKind::kSharedMemory, size_t{16} << 20});
  ASSERT_TRUE(world.ok()) << world.status();
  const auto cost = ProbeSharedMemory(*world, std::chrono::milliseconds(10));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_GT(cost->posted, 0);
  EXPECT_EQ(cost->Seconds(cost->posted_max), cost->posted);
  ASSERT_EQ(cost->line.points.size(), 2u);
  EXPECT_EQ(cost->Seconds(64 << 10), cost->line.points[0].second);
  EXPECT_GE(cost->Seconds(2 << 20), cost->Seconds(64 << 10));
}

// The probe measures sizes beyond the caches if the ranks have buffers of such sizes.
TEST(CostProbeTest, LargeBuffersHaveACostOfTheirOwn) {
  auto world = LocalWorld::Join(2, {}, {TransportKind::kSharedMemory, size_t{32} << 20});
  ASSERT_TRUE(world.ok()) << world.status();
  const auto memory = ProbeSharedMemory(*world, std::chrono::milliseconds(10), 20 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_EQ(memory->line.points.size(), 4u);
  EXPECT_EQ(memory->line.points.back().first, 16u << 20);
  EXPECT_GE(memory->Seconds(32 << 20), memory->line.points.back().second);
  const auto tcp = ProbeTcp(std::chrono::milliseconds(10), 20 << 20);
  ASSERT_TRUE(tcp.ok()) << tcp.status();
  EXPECT_EQ(tcp->far.near_bytes, 1u << 20);
  EXPECT_GE(tcp->far.byte, tcp->thread.byte);
}

TEST(CostModelTest, BytesBeyondTheCacheCostMore) {
  CostModel model = Plain();
  EXPECT_EQ(model.For(1 << 30).thread.byte, model.thread.byte);
  model.far = {.near_bytes = 100, .byte = 2.5, .add_byte = 1.25};
  EXPECT_EQ(model.For(100).thread.byte, 0.5);
  EXPECT_DOUBLE_EQ(model.For(400).thread.byte * 400, 100 * 0.5 + 300 * 2.5);
  EXPECT_DOUBLE_EQ(model.For(400).thread.add_byte * 400, 100 * 0.25 + 300 * 1.25);
  // Two ranks exchange 400 bytes, most of them beyond the near bytes. Each byte is sent and
  // received once per rank.
  const auto ends = SimulateAllReduce(kPair, {2, 2}, 1, 400, 1, model);
  const auto near = SimulateAllReduce(kPair, {2, 2}, 1, 400, 1, Plain());
  ASSERT_TRUE(ends.ok() && near.ok());
  EXPECT_GT(ends->at(0), 3 * near->at(0));
}

TEST(CostLineTest, TimesAreNeverBelowZero) {
  const PiecewiseLinearCost line{{{1000, 2.0}, {2000, 3.0}}};
  EXPECT_DOUBLE_EQ(line.Seconds(1500), 2.5);
  EXPECT_DOUBLE_EQ(line.Seconds(4000), 5.0) << "the last slope goes on";
  EXPECT_DOUBLE_EQ(line.Seconds(500), 1.5) << "as does the first";
  const PiecewiseLinearCost slower_with_less{{{1000, 2.0}, {2000, 1.0}}};
  EXPECT_DOUBLE_EQ(slower_with_less.Seconds(500), 2.0);
  EXPECT_DOUBLE_EQ(slower_with_less.Seconds(4000), 2.0);
  const PiecewiseLinearCost held_up{{{1000, 2.0}, {2000, 300.0}}};
  EXPECT_DOUBLE_EQ(held_up.Seconds(500), 1.0) << "half of it, not -147";
}

}  // namespace
}  // namespace tandem::collective
