// adaptive_localsgd, init_k_steps and begin_step: the number of local steps follows the loss and
// the learning rate.
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Args = std::vector<std::string>;

const Args kTwoRanks = {"--mode=collective", "--nproc=2"};

class AdaptiveLocalSgdTest : public KnobProgramTest {
 protected:
  static Overrides Knobs(const std::string& first, const std::string& begin) {
    return {{"mode", "collective"},
            {"adaptive_localsgd", "true"},
            {"adaptive_localsgd_configs.init_k_steps", first},
            {"adaptive_localsgd_configs.begin_step", begin}};
  }
  // Returns the path of a job with nearly constant parameters. In this job only the learning rate
  // changes the number of local steps.
  std::string AlmostStill(const std::string& schedule) const {
    std::string text = ReadWholeFile(job_);
    const std::string rate = "learning_rate: 0.01";
    text.replace(text.find(rate), rate.size(),
                 "learning_rate: 1e-20 schedule { kind: PIECEWISE " + schedule + " }");
    return Write("still.pbtxt", text);
  }
};

// If the loss is constant, k equals the square root of init_k_steps, rounded up, after the first
// average. Each average needs two collectives: one for the parameters and one for the loss.
TEST_F(AdaptiveLocalSgdTest, FollowsTheRule) {
  struct Row {
    const char *first, *begin;
    int steps, averages, k;
  };
  const Row rows[] = {
      {"16", "1", 12, 3, 4},      // averages after steps 0, 4 and 8
      {"16", "0", 24, 1 + 2, 4},  // averages after steps 15, 19 and 23
      {"5", "3", 12, 3 + 3, 3},   // averages after steps 0, 1, 2, 5, 8 and 11
      {"1", "1", 12, 12, 1},      // k stays 1: an average after each step
  };
  for (const Row& row : rows) {
    const Ran ran = Run(Programs(Knobs(row.first, row.begin)).train, row.steps, 1e-20f);
    EXPECT_EQ(ran.communications, 2 * row.averages) << row.first << ", " << row.begin;
    EXPECT_EQ(ran.state.at(graph::kAverageStepsVar), std::vector<float>{static_cast<float>(row.k)});
  }
}

TEST_F(AdaptiveLocalSgdTest, TheMeanOfOneIsItself) {
  EXPECT_EQ(Run(Programs(Knobs("3", "2")).train, 8).params, Run(Programs({}).train, 8).params);
}

// The learning rate falls to a quarter at step 5 and to nearly zero at step 10, and rises at step
// 20. After each change of the rate, k changes at the next average. All ranks must compute the same
// k; otherwise they wait for each other forever.
TEST_F(AdaptiveLocalSgdTest, FollowsTheLearningRate) {
  job_ = AlmostStill("boundary: [5, 10, 20] value: [1, 0.25, 1e-6, 16]");
  const JobRun run = RunJob(
      "rate", kTwoRanks,
      {"--steps_max=30", "--adaptive_localsgd=true", "--adaptive_localsgd_configs.init_k_steps=8"});
  const std::string log = run.output + ReadWholeFile(Path("rate.log/trainer.0.log"));
  std::vector<std::string> told;
  const std::string words = "adaptive_localsgd: k_";
  for (size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) {
    const size_t from = log.find("k_", at);
    told.push_back(log.substr(from, log.find('\n', from) - from));
  }
  EXPECT_THAT(told,
              ::testing::ElementsAre("k_steps is 3 after step 1", "k_steps is 6 after step 7",
                                     "k_steps is 16 after step 13", "k_steps is 1 after step 29"));
  EXPECT_EQ(run.result.counts.at("localsgd.k_steps"), 1);
}

TEST_F(AdaptiveLocalSgdTest, LearnsAsWell) {
  const Args sgd = {"--optimizer.type=sgd", "--steps_max=60"};
  Args adaptive = sgd;
  adaptive.insert(adaptive.end(),
                  {"--adaptive_localsgd=true", "--adaptive_localsgd_configs.init_k_steps=16"});
  const JobRun plain = RunJob("plain", kTwoRanks, sgd), run = RunJob("run", kTwoRanks, adaptive);
  EXPECT_NEAR(run.result.loss, plain.result.loss, 0.1 * plain.result.loss);
  EXPECT_LT(run.result.counts.at("comm"), 0.8 * plain.result.counts.at("comm"));
}

// A checkpoint holds the step counter, k, and the reference values of loss and learning rate.
TEST_F(AdaptiveLocalSgdTest, GoesOnFromACheckpoint) {
  const auto run = [this](const std::string& name, const std::string& store, int steps) {
    return RunJob(name, kTwoRanks,
                  {"--adaptive_localsgd=true", "--adaptive_localsgd_configs.init_k_steps=12",
                   "--optimizer.type=sgd", "--checkpoint.dir=" + Path(store),
                   "--checkpoint.every_steps=13", "--steps_max=" + std::to_string(steps)})
        .result;
  };
  const JobResult whole = run("whole", "a", 26);
  run("first", "b", 13);
  const JobResult then = run("then", "b", 26);
  // The loss differs a little: between two averages each rank has different parameters, and the
  // checkpoint holds only the parameters of rank 0.
  EXPECT_NEAR(then.loss, whole.loss, 0.02 * whole.loss);
  EXPECT_EQ(then.counts.at("localsgd.k_steps"), whole.counts.at("localsgd.k_steps"));
}

TEST_F(AdaptiveLocalSgdTest, ExcludesWhatSendsGradients) {
  const auto job = StartJob("both", kTwoRanks, {"--adaptive_localsgd=true", "--dgc=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("dgc and adaptive_localsgd"));
}

}  // namespace
}  // namespace tandem::trainer
