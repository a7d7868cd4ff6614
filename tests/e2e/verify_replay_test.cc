// Tests jobs that compute steps twice (verify_replay). The parameters have the same bits as
// without, in every mode. tests/unit/kernels/exec/replay_check_test.cc tests wrong results.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/e2e/host_jobs.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

using Args = std::vector<std::string>;

class VerifyReplayTest : public JobTest {
 protected:
  // Runs a job with and without verify_replay, and returns the output of the run with it.
  std::string Compare(const std::string& name, const Args& launch, Args args) {
    SCOPED_TRACE(name);
    const JobRun off = RunJob(name + "_off", launch, args);
    args.push_back("--verify_replay=2");
    const JobRun on = RunJob(name + "_on", launch, args);
    EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
    EXPECT_THAT(on.output,
                ContainsRegex("verify_replay: every 2 steps, the rank computes [0-9]+ of "
                              "the [0-9]+ operators of a step twice"));
    return on.output;
  }
  // Returns the number of compared operators in an output.
  static int ComparedIn(const std::string& output) {
    const size_t at = output.find("the rank computes ");
    return at == std::string::npos ? 0 : std::atoi(output.c_str() + at + 18);
  }
};

TEST_F(VerifyReplayTest, EveryModeKeepsItsBits) {
  const Args few = {"--steps_max=7"};
  const int local = ComparedIn(Compare("local", {"--mode=local"}, few));
  EXPECT_GT(local, 20);
  EXPECT_EQ(ComparedIn(Compare("collective", {"--mode=collective", "--nproc=2"}, few)), local);
  EXPECT_EQ(ComparedIn(Compare("pserver", {"--servers=2", "--workers=2"}, few)), local);
  Compare("merge", {"--mode=local"},
          {"--steps_max=7", "--gradient_merge=true", "--gradient_merge_configs.k_steps=2"});
  Compare("amp", {"--mode=local"}, {"--steps_max=7", "--amp=true"});
}

// The rows of a step come from servers before the step begins.
TEST_F(VerifyReplayTest, StepsWithTablesOnServersKeepTheirBits) {
  const std::string clicks =
      absl::StrCat(kClicksJob, "global_batch_size: 32\neval_every_epochs: 0\n");
  Write("job.pbtxt", clicks);
  Write("train.csv", ClicksFile(400));
  const std::string output =
      Compare("tables", {"--servers=2", "--workers=2"}, {"--mode=pserver", "--epochs=1"});
  EXPECT_THAT(output, HasSubstr("tables on the servers"));
  EXPECT_GT(ComparedIn(output), 10);
  // Tables that only servers have: the trainers receive the rows of each batch.
  std::string job = clicks;
  job.replace(job.find("model {"), 7, "model { arg { name: \"distributed\" value: \"1\" }");
  Write("job.pbtxt", job);
  const std::string rows =
      Compare("rows", {"--servers=2", "--workers=2"}, {"--mode=pserver", "--epochs=1"});
  EXPECT_THAT(rows, HasSubstr("of them only there"));
  EXPECT_GT(ComparedIn(rows), 10);
  Compare("hybrid", {"--mode=hybrid", "--servers=2", "--workers=2"}, {"--epochs=1"});
}

TEST_F(VerifyReplayTest, WhatCannotBeComparedIsRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"--check_nan_inf=true", "verify_replay and check_nan_inf exclude each other"},
      {"--num_threads=2", "verify_replay and num_threads unlike 1 exclude each other"},
      {"--num_threads=0", "verify_replay and num_threads unlike 1 exclude each other"},
      {"--pipeline=true", "verify_replay with pipeline is not implemented"},
      {"--place=cuda", "verify_replay compares results of CPUs only"},
      {"--verify_replay=-1", "verify_replay is -1, expected at least 0"},
  };
  for (const auto& [flag, text] : refused) {
    const auto job = StartJob("refused", {"--mode=local"}, {"--verify_replay=1", flag});
    EXPECT_NE(job->Wait(), 0) << flag;
    EXPECT_THAT(job->Output(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace tandem
