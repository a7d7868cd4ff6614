// Tests the loss and the metric of the last steps.
#include "trainer/session/training_window.h"

#include "gtest/gtest.h"

namespace tandem::trainer {
namespace {

TEST(TrainingWindow, HasTheMeansOfTheLastTenParts) {
  TrainingWindow window(20);
  window.Begin({});
  for (int step = 0; step < 19; ++step) {
    const bool ends = window.Add(step, 2 * step);
    EXPECT_EQ(ends, step % 2 == 1);
    if (ends) window.EndPart({});
  }
  EXPECT_EQ(window.report().steps, 18);
  EXPECT_DOUBLE_EQ(window.report().loss, 8.5);
  for (int step = 19; step < 30; ++step) {
    if (window.Add(step, 2 * step)) window.EndPart({});
  }
  EXPECT_EQ(window.report().steps, 20);
  EXPECT_DOUBLE_EQ(window.report().loss, 19.5);
  EXPECT_DOUBLE_EQ(window.report().metric, 39);
  window.Begin({});
  EXPECT_EQ(window.report().steps, 0);
}

// The counts have three buckets: label 1, then label 0.
TEST(TrainingWindow, AucIsThatOfTheDifferenceOfCounts) {
  EXPECT_DOUBLE_EQ(AucOf({0, 0, 4, 4, 0, 0}), 1);
  EXPECT_DOUBLE_EQ(AucOf({4, 0, 0, 0, 0, 4}), 0);
  EXPECT_DOUBLE_EQ(AucOf({0, 4, 0, 0, 4, 0}), 0.5);
  EXPECT_DOUBLE_EQ(AucOf({0, 0, 0, 1, 1, 1}), 0.5);
  EXPECT_DOUBLE_EQ(AucOf({1, 0, 1, 0, 1, 0}), 0.5);
  TrainingWindow window(10);
  TrainingWindow::Counts counts = {5, 0, 0, 0, 0, 5};  // an AUC of 0 before the window
  window.Begin(counts);
  for (int step = 0; step < 12; ++step) {
    // The first two steps predict wrongly, the others rightly.
    counts[step < 2 ? 0 : 2] += 1;
    counts[step < 2 ? 5 : 3] += 1;
    EXPECT_TRUE(window.Add(0, 0.1));
    window.EndPart(counts);
  }
  EXPECT_EQ(window.report().steps, 10);
  EXPECT_DOUBLE_EQ(window.report().metric, 1);
}

TEST(TrainingWindow, ALengthOfZeroHasNoWindow) { EXPECT_FALSE(TrainingWindow(0).enabled()); }

}  // namespace
}  // namespace tandem::trainer
