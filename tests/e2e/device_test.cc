// Tests jobs with --place=cuda on a stand-in device that needs no GPU
// (tests/support/guarded_device_module.cc). The stand-in runs the CPU's kernels, so jobs give the
// bits of the CPU. The process dies if it accesses the stand-in's memory without a copy.
#include "gmock/gmock.h"
#include "tests/support/device_job_test.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using DeviceTest = DeviceJobTest;

TEST_F(DeviceTest, TrainsAndEvaluates) {
  ExpectSameBits("plain", {});
  ExpectSameBits("adam", {"--optimizer.type=adam", "--optimizer.learning_rate=0.01"});
}

// Conditions of operators are in the memory of the device. The executor must copy them to the host.
TEST_F(DeviceTest, ConditionsAreRead) {
  ExpectSameBits("merge", {"--gradient_merge=true", "--gradient_merge_k_steps=4"});
}

// A device runs its kernels on one thread, even if the job requests more threads.
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
  EXPECT_THAT(run.output, HasSubstr("the place cuda:0 has no kernels for these operators: auc"));
}

TEST_F(DeviceTest, WhatIsNotFiniteIsFound) {
  ExpectSameBits("finite", {"--check_nan_inf=true"});
  // Compares only the part of the message about the found value. The rest of the message differs by
  // device.
  const auto finding = [this](const std::string& name, const Args& args) {
    const JobRun run = Run(name, args);
    EXPECT_EQ(run.exit_code, 65) << run.output;
    const size_t begin = run.output.find("step "), end = run.output.find(" (DATA_LOSS)");
    return begin < end ? run.output.substr(begin, end - begin) : run.output;
  };
  const Args diverges = {"--optimizer.learning_rate=1e18", "--check_nan_inf=true",
                         "--num_iteration_per_run=4"};
  const std::string cpu = finding("cpu", diverges);
  EXPECT_THAT(cpu, HasSubstr("check_nan_inf: the result "));
  EXPECT_EQ(finding("cuda", OnDevice(diverges)), cpu);
}

TEST_F(DeviceTest, WhatIsNotBuiltIsRefused) {
  const auto refusal = [this](const std::string& flag) {
    const JobRun run = Run("refused", {"--place=cuda", flag});
    EXPECT_NE(run.exit_code, 0) << flag;
    return run.output;
  };
  EXPECT_THAT(refusal("--cpu_num=2"), HasSubstr("several ranks in mode LOCAL"));
  const JobRun second = Run("second", {"--place=cuda:1"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output,
              HasSubstr("place cuda:1 does not exist: there are only 1 CUDA devices"));
}

}  // namespace
}  // namespace tandem
