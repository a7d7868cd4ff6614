// Tests that a rank knows the rank for which it waits.
#include "trainer/modes/comms/rank_waits.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "common/http/status_page.h"
#include "tests/unit/collective/world.h"

namespace tandem::trainer {
namespace {

using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kRanks = 3;

// Runs steps of one allreduce each. Rank `slow` starts each allreduce at least `late` after the
// other ranks. Returns the waits of each rank.
std::vector<std::vector<double>> WaitsOf(int slow, int64_t steps, Duration late) {
  std::vector<RankWaits> all(kRanks);
  std::vector<std::vector<double>> waits(kRanks);
  collective::World world = collective::MakeTcpWorld(kRanks);
  std::atomic<int64_t> began = 0;  // number of steps begun by the other ranks together
  collective::OnEveryRank(kRanks, [&](int r) {
    collective::Communicator& communicator = *world[static_cast<size_t>(r)];
    RankWaits& own = all[static_cast<size_t>(r)];
    for (int64_t step = 0; step < steps; ++step) {
      EXPECT_EQ(own.BeginStep(step, communicator, std::chrono::seconds(30)), OkStatus());
      if (r == slow && late > Duration::zero()) {
        // Makes the other ranks wait for at least `late`, under any load of the machine.
        while (began.load() < (step + 1) * (kRanks - 1)) std::this_thread::yield();
        std::this_thread::sleep_for(late);
      }
      float value = 1;
      own.Began();
      if (r != slow) began.fetch_add(1);
      EXPECT_EQ(communicator.AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum, {})
                    ->Wait(collective::In(30)),
                OkStatus());
      own.Ended();
    }
    waits[static_cast<size_t>(r)] = own.Seconds();
  });
  return waits;
}

TEST(RankWaitsTest, WhoHardlyWaitsIsWaitedFor) {
  const auto waits = WaitsOf(1, RankWaits::kStepsEach + 2, std::chrono::milliseconds(20));
  ASSERT_THAT(waits, Each(SizeIs(kRanks)));
  for (const auto& others : waits) EXPECT_EQ(others, waits[0]);
  for (const int other : {0, 2}) {
    EXPECT_GT(waits[0][static_cast<size_t>(other)], 0.02 * RankWaits::kStepsEach / 2);
  }
  const std::string said =
      http::SlowestText("rank", {{0, waits[0][0]}, {1, waits[0][1]}, {2, waits[0][2]}}, "so far");
  EXPECT_THAT(said,
              testing::MatchesRegex("rank 1: the others waited [0-9.]+ s longer for it so far"));
}

TEST(RankWaitsTest, NobodyKnowsBeforeTheFirstExchange) {
  for (const auto& own : WaitsOf(0, 1, Duration::zero())) EXPECT_THAT(own, IsEmpty());
  const auto waits = WaitsOf(0, 5, Duration::zero());
  for (const auto& own : waits) EXPECT_THAT(own, Each(0.0)) << "told before the first step";
}

TEST(SlowestTextTest, NeedsTwoThatWaitDifferently) {
  EXPECT_EQ(http::SlowestText("rank", {}, ""), "-");
  EXPECT_EQ(http::SlowestText("rank", {{0, 1.0}}, ""), "-");
  EXPECT_EQ(http::SlowestText("rank", {{0, 1.0}, {1, 1.05}}, ""), "none");
  EXPECT_EQ(http::SlowestText("rank", {{0, 3.0}, {1, 2.0}, {4, 0.5}}, "today"),
            "rank 4: the others waited 1.5 s longer for it today");
}

}  // namespace
}  // namespace tandem::trainer
