// Tests mode=collective with --place=cuda on a stand-in device with a stand-in NCCL
// (tests/support/fake_nccl.cc). The product code that calls NCCL's C interface is the same as with
// a GPU.
#include "gmock/gmock.h"
#include "tests/support/device_job_test.h"

namespace tandem {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class DeviceCollective : public DeviceJobTest {
 protected:
  std::string NcclLog() const { return ReadWholeFile(Path("nccl.log")); }
  Env Logged(const std::string& fault = "") const {
    Env env = {{"TANDEM_FAKE_NCCL_LOG", Path("nccl.log")}};
    if (!fault.empty()) env["TANDEM_FAKE_NCCL_FAULT"] = fault;
    return env;
  }
  void ExpectSameAsHosts(const std::string& name, const Args& args) const {
    ExpectSame(name, RunRanks(name + "_cpu", 2, args), RunRanks(name, 2, OnDevice(args), Logged()));
  }
};

TEST_F(DeviceCollective, TwoRanksHaveTheBitsOfHosts) {
  ExpectSameAsHosts("plain", {});
  // All gradients of a gradient bucket are sent as one NCCL group, without a copy into one buffer.
  EXPECT_THAT(NcclLog(), HasSubstr("group of 6"));
  ExpectSameAsHosts("single", {"--fuse_all_reduce_ops=false"});
  EXPECT_THAT(NcclLog(), Not(HasSubstr("inner")));
}

TEST_F(DeviceCollective, SeveralCommunicators) {
  ExpectSameAsHosts("at_once", {"--fuse_all_reduce_ops=false", "--nccl_comm_num=3",
                                "--sync_nccl_allreduce=false"});
  ExpectSameAsHosts("in_turn", {"--fuse_all_reduce_ops=false", "--nccl_comm_num=3"});
}

TEST_F(DeviceCollective, UpdatesByOwner) {
  ExpectSameAsHosts("owner", {"--reduce_strategy=Reduce"});
  EXPECT_THAT(NcclLog(), ContainsRegex("broadcast rank . of 2"));
  // Each rank owns the optimizer slots of some parameters. The checkpoint must contain the slots of
  // all ranks.
  const std::string store = "--checkpoint.dir=" + Path("store");
  const Args owner = {"--reduce_strategy=Reduce", "--place=cuda", store};
  Args begun = owner;
  begun.push_back("--steps_max=20");
  EXPECT_EQ(RunRanks("begun", 2, begun).exit_code, 0);
  const JobRun resumed = RunRanks("resumed", 2, owner);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("resumed at step 20"));
  EXPECT_EQ(resumed.result.params_sha256, ResultOf("owner").params_sha256);
}

// Operators of the program convert gradients to f16 before the communication, and back to f32 after
// it.
TEST_F(DeviceCollective, Fp16AllReduce) {
  ExpectSameAsHosts("half", {"--fp16_allreduce=true"});
  ExpectSameAsHosts("half_owner", {"--fp16_allreduce=true", "--reduce_strategy=Reduce"});
  const JobRun whole = RunRanks("whole", 2, {"--place=cuda"});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_EQ(ResultOf("half").counts.at("comm_bytes") * 2, whole.result.counts.at("comm_bytes"));
  EXPECT_NE(ResultOf("half").params_sha256, whole.result.params_sha256);
}

// Devices send the whole buffers for selected elements, including the unused ends of the buffers.
// The job selects the same elements as a job on hosts.
TEST_F(DeviceCollective, DeepGradientCompression) {
  std::string wide = ReadWholeFile(job_);
  const std::string narrow = "value: \"32,16\"";
  ASSERT_NE(wide.find(narrow), std::string::npos);
  job_ = Write("wide.pbtxt", wide.replace(wide.find(narrow), narrow.size(), "value: \"512,16\""));
  const Args dgc = {"--dgc=true", "--dgc_configs.sparsity=0.75,0.99",
                    "--dgc_configs.rampup_begin_step=4", "--dgc_configs.rampup_step=10"};
  ExpectSameAsHosts("dgc", dgc);
  EXPECT_THAT(NcclLog(), HasSubstr("all_gather"));
}

TEST_F(DeviceCollective, OneRankAlone) {
  const JobRun local = Run("local", {});
  const JobRun one = RunRanks("one", 1, {"--place=cuda"}, Logged());
  ExpectSame("one", local, one);
  EXPECT_THAT(NcclLog(), HasSubstr("all_reduce rank 0 of 1"));
  EXPECT_THAT(one.output, HasSubstr("NCCL 2.28.1, 1 communicators of 1 devices"));
}

TEST_F(DeviceCollective, Hierarchical) {
  const Args flat = {"--place=cuda", "--steps_max=20"};
  const JobRun want = RunRanks("flat", 4, flat, Logged());
  ASSERT_EQ(want.exit_code, 0) << want.output;
  EXPECT_THAT(NcclLog(), Not(HasSubstr("init rank 0 of 2")));
  for (const std::string form : {"Leaders", "Shards"}) {
    Args args = flat;
    args.insert(args.end(),
                {"--use_hierarchical_allreduce=true", "--hierarchical_allreduce_inter_nranks=2",
                 "--hierarchical_allreduce_form=" + form});
    const JobRun run = RunRanks(form, 4, args, Logged());
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_NEAR(run.result.loss, want.result.loss, 1e-4) << form;
    EXPECT_THAT(NcclLog(),
                HasSubstr(form == "Leaders" ? "reduce rank 1 of 2" : "reduce_scatter rank 1 of 2"));
  }
}

// If an operation hangs, the ranks fail with an error that names the operation.
TEST_F(DeviceCollective, AStuckOperationIsNamed) {
  const JobRun run =
      RunRanks("stuck", 2, {"--place=cuda", "--step_timeout_ms=8000"}, Logged("hang:1:200"));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, ContainsRegex("step [0-9]+: nccl communicator 0, rank [01] of 2, "
                                        "AllReduce.sum, f32.[0-9]+.. of \".*@GRAD.*\", operation"));
  EXPECT_THAT(run.output, HasSubstr("a rank is missing or hangs"));
  EXPECT_THAT(NcclLog(), HasSubstr("abort"));
}

TEST_F(DeviceCollective, AnErrorOfNcclEndsTheJob) {
  const JobRun run = RunRanks("error", 2, {"--place=cuda"}, Logged("error:0:200"));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.output, HasSubstr("remote process exited or there was a network error"));
  EXPECT_THAT(run.output, HasSubstr("the fault that was asked for"));
}

TEST_F(DeviceCollective, ADeadRankIsNamed) {
  const JobRun run = RunRanks("dead", 2, {"--place=cuda"}, Logged("exit:1:200"));
  EXPECT_NE(run.exit_code, 0);
  const std::string log = ReadWholeFile(Path("dead.log") + "/trainer.0.log") + run.output;
  EXPECT_THAT(log, ContainsRegex("nccl communicator 0, rank 0 of 2.*rank 1"));
}

}  // namespace
}  // namespace tandem
