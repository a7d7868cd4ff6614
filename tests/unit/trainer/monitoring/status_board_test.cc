#include "trainer/monitoring/status_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trainer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(Curve, KeepsAllWhileThereIsRoomAndThenEverySecond) {
  Curve curve;
  EXPECT_TRUE(curve.Points().empty());
  for (int i = 0; i < 1024; ++i) curve.Add(i, 2 * i);
  EXPECT_EQ(curve.Points().size(), 1024u);
  for (int i = 1024; i < 100000; ++i) {
    curve.Add(i, 2 * i);
    if (i % 997 != 0) continue;
    const auto points = curve.Points();
    ASSERT_LE(points.size(), Curve::kPointsMax + 1);
    ASSERT_GE(points.size(), Curve::kPointsMax / 2);
    EXPECT_THAT(points.back(), Pair(i, 2 * i));
    // All points except the newest one have equal distances, beginning with the first point.
    const double stride = points[1].first;
    for (size_t p = 0; p + 1 < points.size(); ++p) {
      ASSERT_EQ(points[p].first, static_cast<double>(p) * stride) << i;
    }
  }
}

class StatusBoardTest : public testing::Test {
 protected:
  std::string Fact(const std::string& name) const {
    for (const auto& [n, value] : board_.Document().facts) {
      if (n == name) return value;
    }
    return "no such fact";
  }
  FakeClock clock_;
  Metrics metrics_;
  StatusReporter board_{metrics_, clock_};
};

TEST_F(StatusBoardTest, ShowsHowFarTheJobIs) {
  EXPECT_FALSE(board_.Document().ready);
  EXPECT_THAT(Fact("state"), HasSubstr("starting"));
  board_.Begin({.name = "lenet",
                .mode = "LOCAL",
                .model = "lenet",
                .metric = "accuracy",
                .rank = 0,
                .ranks = 2,
                .first_step = 10,
                .steps_total = 100,
                .samples_per_step = 64});
  EXPECT_TRUE(board_.Document().ready);
  EXPECT_EQ(Fact("remaining"), "unknown");
  for (int step = 10; step < 20; ++step) {
    clock_.Advance(std::chrono::seconds(2));
    // Each interval of 2 s has 1.5 s of waiting for data and 0.4 s of communication. The step waits
    // for 0.1 s of the communication. The other 0.3 s overlap with computation.
    const double runs = step - 9;
    board_.Steps({.last = step,
                  .seconds = 0.5,
                  .data_wait_seconds = 1.5 * runs,
                  .batches_ready = 3,
                  .comm = {.on_way = 0.4 * runs, .exposed = 0.1 * runs}});
    board_.Loss(step, 100.0 - step, 0.5, 0.1);
  }
  board_.Evaluation(20, 1.25, 0.9);
  board_.Checkpoint(20);

  const http::StatusDocument document = board_.Document();
  EXPECT_EQ(document.title, "tandem-trainer 0 of job lenet");
  EXPECT_DOUBLE_EQ(document.progress, 0.2);
  EXPECT_EQ(Fact("step"), "20 of 100");
  EXPECT_EQ(Fact("remaining"), "0:02:40");
  EXPECT_EQ(Fact("samples per second"), "128");
  EXPECT_EQ(Fact("waiting for data"), "75.0 %");
  EXPECT_EQ(Fact("last checkpoint"), "step 20");
  ASSERT_EQ(document.series.size(), 4u);
  EXPECT_EQ(document.series[0].points.back(), std::make_pair(20.0, 81.0));
  EXPECT_EQ(document.series[1].points.back(), std::make_pair(20.0, 128.0));
  EXPECT_EQ(document.series[3].name, "test accuracy");
  EXPECT_THAT(document.series[3].points, ElementsAre(Pair(20, 0.9)));
  const std::string text = metrics_.Text();
  for (const char* line :
       {"tandem_steps_total 10\n", "tandem_samples_total 640\n",
        "tandem_data_wait_seconds_total 15\n", "tandem_ranks 2\n", "tandem_step 20\n",
        "tandem_loss 81\n", "tandem_eval_metric 0.9\n", "tandem_checkpoint_step 20\n",
        "tandem_reader_batches_ready 3\n", "tandem_steps_target 100\n", "tandem_steps_wanted 100\n",
        "tandem_step_seconds_count 10\n", "tandem_comm_seconds_total 4\n",
        "tandem_comm_exposed_seconds_total 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  board_.End("LOST: trainer 1 is gone");
  EXPECT_EQ(Fact("state"), "LOST: trainer 1 is gone");
  EXPECT_FALSE(board_.Document().ready);
}

// With num_iteration_per_run, each step of a run counts as a step.
TEST_F(StatusBoardTest, CountsTheStepsOfARun) {
  board_.Begin({.name = "runs", .ranks = 1, .steps_total = 30, .samples_per_step = 64});
  board_.Steps({.last = 4, .steps = 5, .seconds = 2.5});
  EXPECT_EQ(Fact("step"), "5 of 30");
  EXPECT_EQ(Fact("samples per second"), "128");
  const std::string text = metrics_.Text();
  for (const char* line :
       {"tandem_steps_total 5\n", "tandem_samples_total 320\n", "tandem_step_seconds_count 5\n",
        "tandem_step_seconds_sum 2.5\n", "tandem_step_seconds_bucket{le=\"0.3\"} 0\n",
        "tandem_step_seconds_bucket{le=\"1\"} 5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// Goodput is the sum of step_seconds over all steps that were not repeated.
TEST_F(StatusBoardTest, StepsThatAreDoneAgainAreCountedApart) {
  board_.Begin({.name = "again", .ranks = 1, .steps_total = 30, .samples_per_step = 64});
  board_.Steps({.last = 4, .steps = 5, .seconds = 2.5, .repeated = 3});
  board_.Steps({.last = 5, .steps = 1, .seconds = 0.5});
  const std::string text = metrics_.Text();
  for (const char* line : {"tandem_steps_total 6\n", "tandem_repeated_steps_total 3\n",
                           "tandem_step_seconds_count 3\n", "tandem_step_seconds_sum 1.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(StatusBoardTest, NamesTheRankThatIsWaitedFor) {
  board_.Begin({.name = "lenet", .rank = 1, .ranks = 3, .steps_total = 5, .samples_per_step = 1});
  board_.Steps({.seconds = 0.5});
  EXPECT_EQ(Fact("slowest"), "no such fact") << "the ranks have not told each other";
  board_.Steps({.last = 1, .seconds = 0.5, .waited_by_rank = {1.0, 1.5, 0.5}});
  board_.Steps({.last = 2, .seconds = 0.5, .waited_by_rank = {4.0, 5.5, 0.5}});
  EXPECT_EQ(Fact("waited for others"), "5.5 s");
  EXPECT_EQ(Fact("slowest"), "rank 2: the others waited 3.5 s longer for it in the last minute");
  EXPECT_THAT(metrics_.Text(), HasSubstr("tandem_rank_wait_seconds_total{rank=\"1\"} 5.5\n"));
  // The slowest rank of the last minute need not be the slowest rank of the minute before.
  clock_.Advance(std::chrono::seconds(50));
  board_.Steps({.last = 3, .seconds = 0.5, .waited_by_rank = {4.0, 8.5, 3.0}});
  EXPECT_EQ(Fact("slowest"), "rank 2: the others waited 1.0 s longer for it in the last minute");
  clock_.Advance(std::chrono::seconds(30));
  EXPECT_EQ(Fact("slowest"), "rank 0: the others waited 2.5 s longer for it in the last minute");
  EXPECT_EQ(Fact("waited for others"), "8.5 s");
  clock_.Advance(std::chrono::seconds(60));
  EXPECT_EQ(Fact("slowest"), "none");
}

TEST_F(StatusBoardTest, AJobWithoutAMetricShowsNone) {
  board_.Begin({.name = "w2v", .steps_total = 5, .samples_per_step = 1});
  board_.Steps({.seconds = 0.5});
  board_.Loss(0, 1, 0, 0.1);
  EXPECT_EQ(board_.Document().series.size(), 2u);
}

}  // namespace
}  // namespace tandem::trainer
