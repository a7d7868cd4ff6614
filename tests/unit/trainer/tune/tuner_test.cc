#include "trainer/tune/tuner.h"

#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// A stand-in for a machine on which a step takes one second, multiplied by the factor of each
// setting (`factor_`). If a setting is in `noise_`, its n-th trial is also multiplied by the n-th
// factor in `noise_`.
class TunerTest : public ::testing::Test {
 protected:
  StatusOr<Settings> Choose(const std::vector<Tunable>& tunables) {
    TunerOptions options;
    options.tell = [this](const std::string& line) { lines_.push_back(line); };
    return Tune(
        tunables, [this](const Settings& settings) { return Measure(settings); }, options);
  }

  StatusOr<TrialResult> Measure(const Settings& settings) {
    const std::string name = ToString(settings);
    const int n = trials_[name]++;
    if (failure_.contains(name)) return failure_[name];
    if (skipped_.contains(name)) return TrialResult{0, skipped_[name]};
    double seconds = 1;
    for (const auto& [setting, value] : settings) seconds *= factor_.at(setting + "=" + value);
    if (noise_.contains(name))
      seconds *= noise_[name][static_cast<size_t>(n) % noise_[name].size()];
    return TrialResult{seconds, ""};
  }

  std::map<std::string, double> factor_;
  std::map<std::string, std::vector<double>> noise_;
  std::map<std::string, std::string> skipped_;
  std::map<std::string, Status> failure_;
  std::map<std::string, int> trials_;
  std::vector<std::string> lines_;
};

TEST_F(TunerTest, TakesTheFastestOfEachAndBuildsOnIt) {
  factor_ = {{"threads=1", 0.9}, {"threads=2", 0.8}, {"amp=true", 0.5}, {"mkl=false", 1.1}};
  const auto chosen = Choose({{"threads", {{{"threads", "1"}}, {{"threads", "2"}}}},
                              {"own", {{{"mkl", "false"}}}},
                              {"precision", {{{"amp", "true"}}}}});
  ASSERT_TRUE(chosen.ok());
  EXPECT_THAT(*chosen, ElementsAre(Pair("threads", "2"), Pair("amp", "true")));
  // These settings run in three rounds and in the final trial.
  EXPECT_THAT(trials_, Contains(Pair("threads=2, amp=true", 4)));
  EXPECT_THAT(lines_.back(), HasSubstr("0.40 of the initial time, with threads=2, amp=true"));
}

TEST_F(TunerTest, SettingsOfAChoiceGoTogether) {
  factor_ = {{"a=1", 0.5}, {"b=1", 0.5}};
  const auto chosen = Choose({{"both", {{{"a", "1"}, {"b", "1"}}}}});
  ASSERT_TRUE(chosen.ok());
  EXPECT_THAT(*chosen, ElementsAre(Pair("a", "1"), Pair("b", "1")));
}

TEST_F(TunerTest, WhatIsHardlyFasterStays) {
  factor_ = {{"a=1", 0.98}};
  EXPECT_THAT(*Choose({{"a", {{{"a", "1"}}}}}), IsEmpty());
  EXPECT_THAT(lines_.back(), HasSubstr("no setting is changed"));
}

// The setting is much faster in two rounds and slower in one, so the result is unclear and the
// tuner must not choose the setting.
TEST_F(TunerTest, WhatIsNotFasterInEveryRoundStays) {
  factor_ = {{"a=1", 1}};
  noise_ = {{"a=1", {0.5, 1.05, 0.5}}};
  EXPECT_THAT(*Choose({{"a", {{{"a", "1"}}}}}), IsEmpty());
  noise_ = {{"a=1", {0.5, 0.95, 0.5}}};
  trials_.clear();
  EXPECT_THAT(*Choose({{"a", {{{"a", "1"}}}}}), ElementsAre(Pair("a", "1")));
}

TEST_F(TunerTest, WhatIsNotFasterIsTriedOnce) {
  factor_ = {{"a=1", 1.01}};
  EXPECT_THAT(*Choose({{"a", {{{"a", "1"}}}}}), IsEmpty());
  EXPECT_EQ(trials_["a=1"], 1);
}

TEST_F(TunerTest, WhatCannotBeTriedIsSaid) {
  factor_ = {{"a=1", 1}, {"b=1", 0.5}};
  skipped_ = {{"a=1", "no bf16 here"}};
  EXPECT_THAT(*Choose({{"both", {{{"a", "1"}}, {{"b", "1"}}}}}), ElementsAre(Pair("b", "1")));
  EXPECT_THAT(lines_, Contains(AllOf(HasSubstr("a=1 was not measured: no bf16 here"),
                                     HasSubstr("b=1 takes 0.50 of the initial time"),
                                     HasSubstr("b=1 is chosen"))));
}

TEST_F(TunerTest, AnErrorEndsTheSearch) {
  failure_ = {{"a=1", Cancelled("stopped")}};
  EXPECT_EQ(Choose({{"a", {{{"a", "1"}}}}}).status().code(), StatusCode::kCancelled);
  skipped_ = {{"", "out of memory"}};
  EXPECT_THAT(std::string(Choose({}).status().message()), HasSubstr("out of memory"));
}

}  // namespace
}  // namespace tandem::trainer
