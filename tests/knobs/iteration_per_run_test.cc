// num_iteration_per_run: several steps form one run. The reported loss and metric of a run are
// those of the last step of the run. A run consumes one batch per step, and the bits are the same.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class IterationPerRunTest : public KnobProgramTest {
 protected:
  struct Lines {
    std::vector<int64_t> steps;  // numbers of the steps whose line was printed
    std::vector<double> losses;
    std::string params_sha256;
  };
  Lines Train(const std::string& name, const std::string& mode,
              const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"--steps_max=10", "--log_every_steps=1", "--log_format=json"};
    args.insert(args.end(), flags.begin(), flags.end());
    const JobRun run = RunJob(name, Launch(mode), args);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    Lines lines;
    const std::vector<std::string> output = absl::StrSplit(run.output, '\n');
    for (const std::string& line : output) {
      const size_t at = line.find("{\"");
      if (at == std::string::npos) continue;
      const auto json = nlohmann::json::parse(line.substr(at), nullptr, false);
      if (json.is_discarded() || !json.contains("step")) continue;
      lines.steps.push_back(json["step"]);
      lines.losses.push_back(json["loss"]);
    }
    lines.params_sha256 = run.result.params_sha256;
    return lines;
  }
};

TEST_F(IterationPerRunTest, ThreeStepsAreOneRun) {
  const Lines one = Train("one", "local", {});
  const Lines three = Train("three", "local", {"--num_iteration_per_run=3"});
  ASSERT_EQ(one.steps.size(), 10u);
  // Ten steps need four runs of three steps; the last run has one step.
  ASSERT_EQ(three.steps.size(), 4u);
  for (size_t i = 0; i < three.steps.size(); ++i) {
    const size_t last = std::min<size_t>(3 * i + 2, 9);
    EXPECT_EQ(three.steps[i], one.steps[last]);
    EXPECT_EQ(three.losses[i], one.losses[last]) << "the loss of the run's last step";
  }
  EXPECT_EQ(three.params_sha256, one.params_sha256);
}

// The trainer fetches the loss and the metric only in steps that it reports. With reports every
// four steps, it fetches every four steps.
TEST_F(IterationPerRunTest, FetchEveryFourSteps) {
  const Lines one = Train("one", "local", {});
  const Lines fourth = Train("fourth", "local", {"--log_every_steps=4"});
  EXPECT_LE(fourth.steps.size(), 4u);
  ASSERT_GE(fourth.steps.size(), 2u);
  for (size_t i = 0; i < fourth.steps.size(); ++i) {
    const auto at = std::find(one.steps.begin(), one.steps.end(), fourth.steps[i]);
    ASSERT_NE(at, one.steps.end());
    EXPECT_EQ(fourth.losses[i], one.losses[static_cast<size_t>(at - one.steps.begin())]);
  }
  EXPECT_EQ(fourth.params_sha256, one.params_sha256);
}

TEST_F(IterationPerRunTest, TheSameBitsWithRanksAndMergedBatches) {
  for (const char* mode : {"pserver", "collective"}) {
    const std::string name = mode;
    EXPECT_EQ(Train(name + "_four", mode, {"--num_iteration_per_run=4"}).params_sha256,
              Train(name + "_one", mode, {}).params_sha256)
        << mode;
  }
  const std::vector<std::string> merged = {"--batch_merge_repeats=2"};
  const Lines one = Train("merged_one", "local", merged);
  const Lines four =
      Train("merged_four", "local", {"--batch_merge_repeats=2", "--num_iteration_per_run=4"});
  EXPECT_EQ(four.params_sha256, one.params_sha256);
  EXPECT_EQ(four.losses, (std::vector<double>{one.losses[3], one.losses[7], one.losses[9]}));
}

}  // namespace
}  // namespace tandem::trainer
