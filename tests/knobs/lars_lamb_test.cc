// The lars and lamb knobs of the strategy, with all settings: a second spelling of the optimizers
// lars_momentum and lamb.
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;

using LarsLambTest = KnobProgramTest;

TEST_F(LarsLambTest, AreTheOptimizersOfTheirNames) {
  struct Case {
    Overrides knobs, same;
  };
  const Overrides lars = {{"optimizer.type", "momentum"}, {"lars", "true"}};
  const Overrides lamb = {{"optimizer.type", "adam"}, {"lamb", "true"}};
  const auto with = [](Overrides base, const Overrides& more) {
    base.insert(base.end(), more.begin(), more.end());
    return base;
  };
  const Case cases[] = {
      {lars, {{"optimizer.type", "lars_momentum"}}},
      {with(lars, {{"lars_configs.lars_coeff", "0.02"}}),
       {{"optimizer.type", "lars_momentum"}, {"optimizer.lars_coeff", "0.02"}}},
      {with(lars, {{"lars_configs.lars_weight_decay", "0.25"}}),
       {{"optimizer.type", "lars_momentum"}, {"optimizer.weight_decay", "0.25"}}},
      {with(lars, {{"lars_configs.epsilon", "0.5"}}),
       {{"optimizer.type", "lars_momentum"}, {"optimizer.epsilon", "0.5"}}},
      {with(lars, {{"lars_configs.exclude_from_weight_decay", ".w"},
                   {"lars_configs.lars_weight_decay", "0.25"}}),
       {{"optimizer.type", "lars_momentum"},
        {"optimizer.decay_exclude", ".w"},
        {"optimizer.weight_decay", "0.25"}}},
      {lamb, {{"optimizer.type", "lamb"}}},
      {with(lamb, {{"lamb_configs.lamb_weight_decay", "0.25"}}),
       {{"optimizer.type", "lamb"}, {"optimizer.weight_decay", "0.25"}}},
      {with(lamb, {{"lamb_configs.lamb_weight_decay", "0.25"},
                   {"lamb_configs.exclude_from_weight_decay", ".w"}}),
       {{"optimizer.type", "lamb"},
        {"optimizer.weight_decay", "0.25"},
        {"optimizer.decay_exclude", ".w"}}},
  };
  std::vector<decltype(Ran::params)> seen;
  for (const Case& c : cases) {
    const auto params = Run(Programs(c.knobs).train, 4).params;
    EXPECT_EQ(params, Run(Programs(c.same).train, 4).params) << c.knobs.back().first;
    for (const auto& other : seen) EXPECT_NE(params, other) << c.knobs.back().first;
    seen.push_back(params);
  }
}

TEST_F(LarsLambTest, NeedTheOptimizerThatTheyChange) {
  const auto lars = StartJob("lars", {"--mode=local"}, {"--lars=true", "--optimizer.type=adam"});
  EXPECT_EQ(lars->Wait(), 2);
  EXPECT_THAT(lars->Output(),
              HasSubstr("lars: true needs optimizer momentum, but the job uses optimizer adam"));
  const auto lamb = StartJob("lamb", {"--mode=local"}, {"--lamb=true"});
  EXPECT_EQ(lamb->Wait(), 2);
  EXPECT_THAT(lamb->Output(), HasSubstr("optimizer { type: \"adam\" }, or remove lamb"));
}

}  // namespace
}  // namespace tandem::trainer
