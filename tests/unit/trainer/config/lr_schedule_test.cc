#include "trainer/config/lr_schedule.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/check.h"
#include "proto/job.pb.h"

namespace tandem::trainer {
namespace {

using testing::HasSubstr;

LearningRateSchedule Config(const std::string& text) {
  LearningRateSchedule config;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

TEST(LrSchedule, ValuesComputedByHand) {
  const struct {
    const char* config;
    int64_t steps_total;
    std::vector<std::pair<int64_t, double>> expected;  // rates by step, for a base rate of 0.2
  } cases[] = {
      {"", 0, {{0, 0.2}, {1000000, 0.2}}},
      {"kind: PIECEWISE boundary: [3, 5] value: [1, 0.5, 0.1]",
       0,
       {{0, 0.2}, {2, 0.2}, {3, 0.1}, {4, 0.1}, {5, 0.02}, {99, 0.02}}},
      {"kind: PIECEWISE value: 0.5", 0, {{0, 0.1}, {9, 0.1}}},
      {"kind: EXPONENTIAL decay_steps: 10 decay_rate: 0.25",
       0,
       {{0, 0.2}, {5, 0.1}, {10, 0.05}, {15, 0.025}, {20, 0.0125}}},
      {"kind: EXPONENTIAL decay_steps: 10 decay_rate: 0.5 staircase: true",
       0,
       {{0, 0.2}, {9, 0.2}, {10, 0.1}, {19, 0.1}, {20, 0.05}}},
      {"kind: EXPONENTIAL", 100, {{50, 0.2 / std::sqrt(10.0)}, {100, 0.02}}},
      {"kind: COSINE decay_steps: 60",
       0,
       {{0, 0.2}, {20, 0.15}, {30, 0.1}, {40, 0.05}, {60, 0}, {61, 0}, {600, 0}}},
      {"kind: COSINE end_factor: 0.5",
       60,
       {{0, 0.2}, {20, 0.175}, {30, 0.15}, {60, 0.1}, {99, 0.1}}},
      {"kind: POLYNOMIAL decay_steps: 10", 0, {{0, 0.2}, {5, 0.1}, {9, 0.02}, {10, 0}, {11, 0}}},
      {"kind: POLYNOMIAL decay_steps: 10 power: 2 end_factor: 0.1",
       0,
       {{0, 0.2}, {5, 0.2 * (0.1 + 0.9 * 0.25)}, {10, 0.02}, {50, 0.02}}},
      {"warmup_steps: 4", 0, {{0, 0}, {1, 0.05}, {3, 0.15}, {4, 0.2}, {5, 0.2}}},
      {"kind: COSINE warmup_steps: 10", 70, {{5, 0.1}, {10, 0.2}, {30, 0.15}, {40, 0.1}, {70, 0}}},
      {"kind: PIECEWISE boundary: 2 value: [0.5, 1] warmup_steps: 2",
       0,
       {{0, 0}, {1, 0.05}, {2, 0.1}, {3, 0.1}, {4, 0.2}}},
  };
  for (const auto& c : cases) {
    const auto schedule = LrSchedule::Make(Config(c.config), 0.2, c.steps_total);
    ASSERT_TRUE(schedule.ok()) << c.config << ": " << schedule.status();
    for (const auto& [step, expected] : c.expected) {
      EXPECT_NEAR(schedule->At(step), expected, 1e-8) << c.config << " at " << step;
    }
  }
}

TEST(LrSchedule, RefusesWithTheFieldsName) {
  const struct {
    const char* config;
    const char* expected;
  } cases[] = {
      {"kind: PIECEWISE boundary: 3 value: 1", "1 boundaries need 2 values, but 1 are given"},
      {"kind: PIECEWISE", "0 boundaries need 1 values, but 0 are given"},
      {"kind: PIECEWISE boundary: [5, 5] value: [1, 2, 3]", "5 follows 5"},
      {"kind: PIECEWISE boundary: 0 value: [1, 2]", "must ascend and start at 1"},
      {"kind: PIECEWISE boundary: 1 value: [1, nan]", "schedule.value is nan"},
      {"kind: COSINE decay_steps: -1", "schedule.decay_steps is -1"},
      {"kind: COSINE", "the job has 0 steps"},
      {"kind: EXPONENTIAL decay_steps: 1 decay_rate: -1", "schedule.decay_rate is -1"},
      {"kind: POLYNOMIAL decay_steps: 1 power: 0", "schedule.power is 0"},
      {"kind: POLYNOMIAL decay_steps: 1 end_factor: inf", "schedule.end_factor is inf"},
      {"warmup_steps: -2", "schedule.warmup_steps is -2"},
      {"power: 2", "schedule.power has no effect with kind: CONSTANT, expected kind: POLYNOMIAL"},
      {"kind: COSINE decay_steps: 9 boundary: 3",
       "schedule.boundary has no effect with kind: COSINE"},
      {"kind: POLYNOMIAL decay_steps: 9 staircase: true", "schedule.staircase has no effect"},
  };
  for (const auto& c : cases) {
    const Status status = LrSchedule::Make(Config(c.config), 0.1, 0).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.config;
    EXPECT_THAT(status.message(), HasSubstr(c.expected)) << c.config;
  }
  EXPECT_THAT(LrSchedule::Make(Config("kind: COSINE warmup_steps: 50"), 0.1, 50).status().message(),
              HasSubstr("50 steps, and 50 of them are warm-up"));
  EXPECT_FALSE(LrSchedule::Make(Config(""), -1, 0).ok());
  EXPECT_FALSE(LrSchedule::Make(Config(""), std::nan(""), 0).ok());
}

}  // namespace
}  // namespace tandem::trainer
