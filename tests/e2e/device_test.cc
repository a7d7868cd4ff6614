// Jobs with --place=cuda over a device that needs no GPU (tests/support/guarded_device_module.cc):
// its kernels are the CPU's, so jobs give the CPU's bits, and its memory kills who touches it
// without a copy.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

constexpr char kMlpJob[] = R"(
name: "mlp"
model { zoo: "mlp" arg { name: "hidden" value: "32,16" } arg { name: "image" value: "1,8,8" } }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 640 test_samples: 150 }
}
optimizer { type: "momentum" learning_rate: 0.05 }
global_batch_size: 32
epochs: 2
seed: 3
log_every_steps: 5
)";

class DeviceTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (IsSkipped()) return;
    job_ = Write("mlp.pbtxt", kMlpJob);
    // The module is looked for beside the program.
    const std::filesystem::path bin = std::getenv("TANDEM_BIN_DIR");
    const auto trainer = bin / kTrainer;
    std::filesystem::remove(trainer);
    std::filesystem::create_hard_link(bin / "tandem-trainer", trainer);
  }

  JobRun Run(const std::string& name, Args args) const {
    args.insert(args.begin(), "--job_file=" + job_);
    args.push_back("--result_json=" + Path(name + ".json"));
    ChildProcess trainer(kTrainer, args, {}, Path(name + ".out"));
    JobRun run;
    run.exit_code = trainer.Wait();
    run.output = trainer.Output();
    if (run.exit_code == 0) run.result = ResultOf(name);
    return run;
  }
  // The same job on the CPU and on the device.
  void ExpectSameBits(const std::string& name, const Args& args) const {
    const JobRun cpu = Run(name + "_cpu", args);
    Args placed = args;
    placed.push_back("--place=cuda");
    const JobRun device = Run(name, placed);
    ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
    ASSERT_EQ(device.exit_code, 0) << device.output;
    EXPECT_EQ(device.result.params_sha256, cpu.result.params_sha256) << name;
    EXPECT_EQ(device.result.loss, cpu.result.loss) << name;
    EXPECT_EQ(device.result.accuracy, cpu.result.accuracy) << name;
  }

  static constexpr const char* kTrainer = "../tests/guarded_device/tandem-trainer";
};

TEST_F(DeviceTest, TrainsAndEvaluates) {
  ExpectSameBits("plain", {});
  ExpectSameBits("adam", {"--optimizer.type=adam", "--optimizer.learning_rate=0.01"});
}

// Conditions of operators lie on the device too.
TEST_F(DeviceTest, ConditionsAreRead) {
  ExpectSameBits("merge", {"--gradient_merge=true", "--gradient_merge_k_steps=4"});
}

// One thread feeds the device, whatever is asked for.
TEST_F(DeviceTest, ThreadsAreOne) { ExpectSameBits("threads", {"--num_threads=3"}); }

TEST_F(DeviceTest, Resumes) {
  const JobRun whole = Run("whole", {});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string store = "--checkpoint.dir=" + Path("store");
  const JobRun begun = Run("begun", {store, "--steps_max=20", "--place=cuda"});
  EXPECT_EQ(begun.exit_code, 0) << begun.output;
  const JobRun resumed = Run("resumed", {store, "--place=cuda"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resumed at step 20"));
  EXPECT_EQ(resumed.result.params_sha256, whole.result.params_sha256);
}

TEST_F(DeviceTest, AnOperatorWithoutKernelIsNamedBeforeTheFirstStep) {
  job_ = Write("deepfm.pbtxt", R"(
name: "deepfm"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "45" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
}
data {
  format: "csv" dir: "."
  csv { train_file: "x.csv" test_file: "x.csv"
        label_column: "click" positive_label: "1" negative_label: "0"
        column { name: "a" ids: 22 } column { name: "b" ids: 13 } column { name: "c" ids: 10 } }
}
optimizer { type: "sgd" learning_rate: 0.1 }
global_batch_size: 2
)");
  Write("x.csv", "click,a,b,c\n1,x,y,z\n0,x,v,z\n1,u,y,z\n0,u,v,z\n");
  const JobRun run = Run("auc", {"--place=cuda"});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("there are no kernels on cuda:0 for: auc"));
}

TEST_F(DeviceTest, WhatIsNotBuiltIsRefused) {
  const auto refusal = [this](const std::string& flag) {
    const JobRun run = Run("refused", {"--place=cuda", flag});
    EXPECT_NE(run.exit_code, 0) << flag;
    return run.output;
  };
  EXPECT_THAT(refusal("--check_nan_inf=true"), HasSubstr("check_nan_inf is not built yet"));
  EXPECT_THAT(refusal("--cpu_num=2"), HasSubstr("communication between CUDA places"));
  const JobRun second = Run("second", {"--place=cuda:1"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("place cuda:1: there are only 1 CUDA devices"));
}

}  // namespace
}  // namespace tandem
