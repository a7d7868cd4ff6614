// Tests that local, pserver and collective mode train the same network with the same result.
#include <set>

#include "common/tensor/device.h"
#include "gmock/gmock.h"
#include "tests/support/params_test_util.h"
#include "tests/support/process_test_util.h"
#include "tests/support/softmax_program.h"

namespace tandem {
namespace {

const std::vector<std::string> kLocal = {"--mode=local"};
const std::vector<std::string> kCollective = {"--mode=collective", "--nproc=2"};
const std::vector<std::string> kPserver = {"--servers=2", "--workers=2"};

class ModesTest : public JobTest {
 protected:
  // Trains for `steps` steps and stores checkpoints in the directory name.ck.
  JobRun Train(const std::string& name, const std::vector<std::string>& launch, int steps,
               std::vector<std::string> args = {}) const {
    args.push_back("--steps_max=" + std::to_string(steps));
    args.push_back("--checkpoint.dir=" + Path(name + ".ck"));
    return RunJob(name, launch, args);
  }
  trainer::TensorMap Params(const std::string& name) const {
    return SavedParams(Path(name + ".ck"), device_);
  }

  mutable CpuDevice device_;  // a member, because the device must outlive its tensors
};

// A sum over a whole batch has another rounding error than the sum over two halves. The error may
// change the sign of a relu's input or the maximum of a pooling window. After such a change, the
// networks diverge by more than rounding errors. The test compares only the arithmetic of the
// modes, so a low learning rate delays this effect. Pserver mode and collective mode give identical
// bits for any step length and seed.
const std::vector<std::string> kShortSteps = {"--optimizer.learning_rate=0.0003"};

TEST_F(ModesTest, TwoHundredStepsGiveTheSameNetworkInEveryMode) {
  constexpr int kSteps = 200;
  const JobRun pserver = Train("pserver", kPserver, kSteps, kShortSteps);
  const JobRun collective = Train("collective", kCollective, kSteps, kShortSteps);
  const JobRun local = Train("local", kLocal, kSteps, kShortSteps);
  ASSERT_FALSE(HasFailure());
  for (const JobRun* run : {&pserver, &collective, &local}) EXPECT_EQ(run->result.steps, kSteps);
  EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256);
  EXPECT_EQ(pserver.result.loss, collective.result.loss);
  const double distance = Distance(Params("pserver"), Params("local"));
  RecordProperty("distance", std::to_string(distance * 1e9) + "e-9");
  EXPECT_LT(distance, 1e-5);
  EXPECT_GT(distance, 0) << "nothing was compared";
  EXPECT_NEAR(pserver.result.loss, local.result.loss, 1e-5 * local.result.loss);
  EXPECT_GT(local.result.accuracy, 0.5);
}

// One process computes the batch in two parts, or on two replicas. Both ways add the same numbers
// in the same order as two ranks. All runs use one thread, because sums in kernels depend on the
// number of threads.
TEST_F(ModesTest, OneProcessGivesTheBitsOfTwo) {
  constexpr int kSteps = 200;
  const std::vector<std::string> thread = {"--threads=1"};
  const std::string want = Train("collective", kCollective, kSteps, thread).result.params_sha256;
  EXPECT_EQ(Train("pserver", kPserver, kSteps, thread).result.params_sha256, want);
  for (const char* way : {"--batch_merge_repeats=2", "--cpu_num=2"}) {
    EXPECT_EQ(Train(way, kLocal, kSteps, {"--threads=1", way}).result.params_sha256, want) << way;
  }
}

TEST_F(ModesTest, TheNumberOfServersChangesNoBit) {
  const std::string want = Train("collective", kCollective, 30).result.params_sha256;
  for (const char* servers : {"1", "3"}) {
    const JobRun run = Train(std::string("servers") + servers,
                             {std::string("--servers=") + servers, "--workers=2"}, 30);
    EXPECT_EQ(run.result.params_sha256, want) << servers << " servers";
  }
}

// Pservers run elementwise optimizers on slices, and all other optimizers on whole parameters. Some
// runs also change the gradients before the update.
TEST_F(ModesTest, EveryOptimizerGivesTheSameBitsOnServersAndTrainers) {
  const std::vector<std::vector<std::string>> optimizers = {
      {"adamw", "--optimizer.decay_exclude=.b"},
      {"adagrad", "--optimizer.initial_accumulator=0.1"},
      {"decayed_adagrad", "--optimizer.clip_min=-0.01", "--optimizer.clip_max=0.01"},
      {"adamax", "--optimizer.l2_decay=0.01"},
      {"rmsprop", "--optimizer.centered=true", "--optimizer.momentum=0.5"},
      {"ftrl", "--optimizer.l1=0.001"},
      {"lars_momentum", "--optimizer.clip_norm=0.5"},
      {"lamb", "--optimizer.l1_decay=0.0001"},
  };
  std::set<std::string> different;
  for (std::vector<std::string> args : optimizers) {
    const std::string type = args[0];
    args[0] = "--optimizer.type=" + type;
    args.push_back("--optimizer.learning_rate=0.001");
    const JobRun pserver = Train("p" + type, kPserver, 8, args);
    const JobRun collective = Train("c" + type, kCollective, 8, args);
    EXPECT_EQ(pserver.result.params_sha256, collective.result.params_sha256) << type;
    const bool whole = type == "lars_momentum" || type == "lamb";
    EXPECT_EQ(pserver.output.find("slice_var_up has no effect") != std::string::npos, whole)
        << type;
    EXPECT_TRUE(different.insert(pserver.result.params_sha256).second) << type;
  }
}

TEST_F(ModesTest, AsynchronousTrainingLearns) {
  const std::vector<std::vector<std::string>> regimes = {
      {},
      {"--a_sync_configs.half_async=true"},
      {"--a_sync_configs.max_staleness=1"},
      {"--a_sync_configs.k_steps=10"},
      {"--a_sync_configs.independent_recv_thread=true", "--a_sync_configs.thread_pool_size=2"},
  };
  for (std::vector<std::string> args : regimes) {
    const std::string name =
        "async" + std::to_string(args.size()) + (args.empty() ? "" : args[0].substr(17, 4));
    args.push_back("--a_sync=true");
    EXPECT_GT(Train(name, kPserver, 200, args).result.accuracy, 0.5) << name;
  }
}

TEST_F(ModesTest, FourRanks) {
  const JobRun run = Train("four", {"--mode=collective", "--nproc=4"}, 30);
  const JobRun local = Train("local", kLocal, 30);
  ASSERT_FALSE(HasFailure());
  EXPECT_LT(Distance(Params("four"), Params("local")), 1e-5);
}

// Compares the loss before and after some steps of training. A job of one step with a tiny learning
// rate gives the loss before training.
TEST_F(ModesTest, EveryModelOfTheZooLearns) {
  for (const char* zoo : {"softmax", "mlp", "residual_cnn"}) {
    const std::string name = zoo;
    const std::vector<std::string> model = {"--model.zoo=" + name, "--data.train_samples_max=2000",
                                            "--global_batch_size=32"};
    std::vector<std::string> still = model;
    still.push_back("--optimizer.learning_rate=1e-12");
    const double before = Train(name + "0", kLocal, 1, still).result.loss;
    const double after = Train(name, kLocal, 25, model).result.loss;
    EXPECT_LT(after, 0.8 * before) << name;
  }
}

TEST_F(ModesTest, AProgramFileTrains) {
  Write("softmax.pbtxt", kSoftmaxProgram);
  std::string job = ReadWholeFile(job_);
  job.replace(job.find("zoo: \"lenet\""), 12, "program: \"softmax.pbtxt\"");
  Write("job.pbtxt", job);
  const JobRun run = Train("file", kCollective, 60);
  EXPECT_GT(run.result.accuracy, 0.6);
}

}  // namespace
}  // namespace tandem
