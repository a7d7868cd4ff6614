// elastic: a job continues without a lost rank and ends with the bits of an undisturbed job.
// Without the knob the job ends.
#include <signal.h>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

class ElasticTest : public JobTest {
 protected:
  static Args With(Args args, const Args& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // Starts a job of `nproc` ranks and kills rank `rank` after step 20. Returns the running job.
  std::unique_ptr<ChildProcess> Killed(const std::string& name, const std::string& nproc,
                                       const Args& args, int rank) const {
    auto job = StartJob(name, {"--mode=collective", "--nproc=" + nproc}, args);
    EXPECT_TRUE(WaitUntil([&] { return StepOf(*job) >= 20; })) << job->Output();
    const pid_t pid = TrainerOf(*job, rank);
    EXPECT_NE(pid, 0);
    if (pid != 0) kill(pid, SIGKILL);
    return job;
  }

  const Args kArgs = {"--steps_max=1000", "--epochs=10", "--log_every_steps=5",
                      "--deterministic=true"};
};

TEST_F(ElasticTest, TheJobGoesOnWithTheSameBits) {
  const JobRun quiet = RunJob("quiet", {"--mode=collective", "--nproc=2"}, kArgs);
  for (const int rank : {1, 0}) {
    const std::string name = "killed" + std::to_string(rank);
    const auto job = Killed(name, "1:2", kArgs, rank);
    EXPECT_EQ(job->Wait(), 0) << job->Output();
    const JobResult result = ResultOf(name);
    EXPECT_EQ(result.steps, 1000);
    EXPECT_EQ(result.params_sha256, quiet.result.params_sha256) << job->Output();
    EXPECT_EQ(result.loss, quiet.result.loss);
    EXPECT_THAT(job->Output(), HasSubstr("trainer " + std::to_string(rank) + " is lost"));
  }
}

TEST_F(ElasticTest, WithoutItTheJobEnds) {
  const auto job = Killed("ends", "2", kArgs, 1);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL) << job->Output();
}

TEST_F(ElasticTest, WhatCannotChangeIsRefused) {
  const struct {
    Args launch, args;
    const char* why;
  } rows[] = {
      {{"--nproc=2"}, {"--elastic=true"}, "tandemrun --nproc=MIN:MAX"},
      {{"--nproc=1:2"}, {"--elastic=false"}, "contradicts tandemrun --nproc=MIN:MAX"},
      {{"--nproc=1:2"}, {"--sharding=true"}, "elastic is not implemented together with sharding"},
      {{"--nproc=1:2"}, {"--localsgd=true"}, "elastic is not implemented together with localsgd"},
      {{"--nproc=1:2"},
       {"--dgc=true", "--optimizer.type=momentum"},
       "not implemented together with dgc"},
      {{"--nproc=1:2"},
       {"--reduce_strategy=Reduce"},
       "not implemented together with reduce_strategy"},
      {{"--nproc=1:2"}, {"--place=cuda"}, "elastic is not implemented with place cuda"},
      {{"--nproc=1:2"},
       {"--cpu_num=2"},
       "elastic is not implemented together with cpu_num above 1"},
      {{"--nproc=3:4"}, {"--deterministic=true"}, "cannot be divided equally among 3"},
  };
  int number = 0;
  for (const auto& row : rows) {
    const auto job =
        StartJob("refused" + std::to_string(number++), With({"--mode=collective"}, row.launch),
                 With(row.args, {"--steps_max=10"}));
    EXPECT_EQ(job->Wait(), 2) << row.why << job->Output();
    EXPECT_THAT(job->Output(), HasSubstr(row.why));
  }
}

// elastic rejects a batch size per rank, because the batch of a step must not depend on the number
// of ranks.
TEST_F(ElasticTest, BatchesOfRanksAreRefused) {
  std::string text = ReadWholeFile(job_);
  const std::string global = "global_batch_size: 128";
  job_ = Write("each.pbtxt", text.replace(text.find(global), global.size(), "batch_size: 32"));
  const auto job = StartJob("each", {"--nproc=1:2"}, {"--steps_max=10"});
  EXPECT_EQ(job->Wait(), 2) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("global_batch_size: 64"));
}

}  // namespace
}  // namespace tandem::trainer
