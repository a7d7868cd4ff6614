#include "trainer/monitoring/run_totals.h"

#include <gtest/gtest.h>

#include "trainer/monitoring/training_curves.h"

namespace tandem::trainer {
namespace {

TEST(RunTotals, TimesAreDifferencesAndNeverNegative) {
  RunTotals totals;
  EXPECT_EQ(totals.SetTimes(2, {.on_way = 3, .exposed = 1}).data_wait, 2);
  const RunTotals::Added more = totals.SetTimes(5, {.on_way = 7, .exposed = 1});
  EXPECT_EQ(more.data_wait, 3);
  EXPECT_EQ(more.comm.on_way, 4);
  EXPECT_EQ(more.comm.exposed, 0);
  // A new session in the same process counts its times from 0 again.
  EXPECT_EQ(totals.SetTimes(1, {}).data_wait, 0);
  EXPECT_EQ(totals.SetTimes(4, {}).data_wait, 3);
}

TEST(RunTotals, SpeedAndShareCountTheStepsOfThisProcess) {
  RunTotals totals;
  const Time begin{std::chrono::seconds(100)};
  totals.Begin(10, 30, /*samples_per_step=*/8, begin);
  EXPECT_EQ(totals.SamplesPerSecond(), 0);
  EXPECT_LT(totals.DataWaitShare(), 0);
  EXPECT_EQ(totals.Remaining(begin), "unknown");
  totals.AddRun(14, 5, 2.0);
  totals.SetTimes(2.0, {});
  EXPECT_EQ(totals.steps_done(), 15);
  EXPECT_EQ(totals.SamplesPerSecond(), 20);
  EXPECT_EQ(totals.DataWaitShare(), 0.5);
  EXPECT_EQ(totals.Remaining(begin + std::chrono::seconds(100)), "0:05:00");
}

TEST(TrainingCurves, APointOfSpeedCoversTheStepsSinceTheLast) {
  TrainingCurves curves;
  EXPECT_EQ(curves.AddLoss(1, 0.5, 0, 8), std::nullopt);
  curves.AddRun(2, 1.0);
  curves.AddRun(2, 1.0);
  EXPECT_EQ(curves.AddLoss(5, 0.4, 0, 8), 16);
  EXPECT_EQ(curves.AddLoss(6, 0.4, 0, 8), std::nullopt);
  EXPECT_EQ(curves.Series("")[1].points.size(), 1u);
  EXPECT_EQ(curves.Series("").size(), 2u);
  EXPECT_EQ(curves.Series("auc").size(), 4u);
}

}  // namespace
}  // namespace tandem::trainer
