// Metrics in Prometheus' text format: each metric has its current name. During a renaming, the
// metric also has its former name.
#include "common/base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, NumbersAppearUnderBothNames) {
  Metrics metrics;
  metrics.GetCounter({"tandem_new_total", "tandem_old_total"}, "Things", {{"kind", "a"}}).Add(2);
  metrics.GetGauge({"tandem_new", "tandem_old"}, "Things now").Set(3);
  metrics.GetHistogram({"tandem_new_seconds", "tandem_old_seconds"}, "Time", {1, 2}).Observe(1.5);
  const std::string text = metrics.Text();
  for (const char* name : {"tandem_new", "tandem_old"}) {
    EXPECT_THAT(text, HasSubstr(std::string(name) + "_total{kind=\"a\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("\n" + std::string(name) + " 3\n"));
    EXPECT_THAT(text, HasSubstr(std::string(name) + "_seconds_bucket{le=\"1\"} 0\n"));
    EXPECT_THAT(text, HasSubstr(std::string(name) + "_seconds_bucket{le=\"2\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("# TYPE " + std::string(name) + "_seconds histogram\n"));
  }
  EXPECT_THAT(text, HasSubstr("# HELP tandem_old Former name of tandem_new\n"));
}

TEST(Metrics, AMetricWithoutAFormerNameAppearsOnce) {
  Metrics metrics;
  metrics.GetCounter("tandem_new_total", "Things").Add(2);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("Former name")));
}

TEST(Metrics, TheSameNameAndLabelsGiveTheSameObject) {
  Metrics metrics;
  Counter& counter = metrics.GetCounter({"tandem_new_total", "tandem_old_total"}, "Things");
  counter.Add(1);
  EXPECT_EQ(&metrics.GetCounter("tandem_new_total", "Things"), &counter);
  EXPECT_NE(&metrics.GetCounter("tandem_new_total", "Things", {{"kind", "b"}}), &counter);
  EXPECT_EQ(counter.Value(), 1);
}

}  // namespace
}  // namespace tandem
