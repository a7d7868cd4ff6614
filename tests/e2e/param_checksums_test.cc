// Tests the checksums of parameters in progress lines (param_checksums). Jobs that have the same
// bits show the same checksums. tests/unit/trainer/session/param_checksums_test.cc tests ranks with
// wrong parameters.
#include <signal.h>

#include <sstream>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

using Args = std::vector<std::string>;

class ParamChecksumsTest : public JobTest {
 protected:
  // Returns step and checksum of each progress line: "step=2 params=5f3a91c2".
  static Args LinesOf(const std::string& output) {
    Args lines;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);) {
      const size_t at = line.find(" params=");
      if (!line.starts_with("step=") || at == std::string::npos) continue;
      lines.push_back(line.substr(0, line.find(' ')) + line.substr(at, 16));
    }
    return lines;
  }
  Args Checksums(const std::string& name, const Args& launch, Args args) const {
    args.insert(args.end(), {"--param_checksums=3", "--log_every_steps=3", "--steps_max=10"});
    const JobRun run = RunJob(name, launch, args);
    EXPECT_EQ(run.exit_code, 0) << name << ": " << run.output;
    return LinesOf(run.output);
  }
};

TEST_F(ParamChecksumsTest, JobsWithTheSameBitsShowTheSameChecksums) {
  const Args on = {"--deterministic=true"};
  const Args local = Checksums("local", {"--mode=local"}, on);
  ASSERT_THAT(local, SizeIs(4));
  EXPECT_THAT(local[3], HasSubstr("step=10 "));
  EXPECT_NE(local[0].substr(7), local[1].substr(7));
  EXPECT_THAT(Checksums("again", {"--mode=local"}, on), ElementsAreArray(local));
  EXPECT_THAT(Checksums("places", {"--mode=local"}, {on[0], "--cpu_num=2"}),
              ElementsAreArray(local));
  EXPECT_THAT(Checksums("ranks", {"--mode=collective", "--nproc=4"}, on), ElementsAreArray(local));
  EXPECT_THAT(
      Checksums("reduce", {"--mode=collective", "--nproc=4"}, {on[0], "--reduce_strategy=Reduce"}),
      ElementsAreArray(local));
  EXPECT_THAT(Checksums("pserver", {"--servers=2", "--workers=2"}, on), ElementsAreArray(local));
}

TEST_F(ParamChecksumsTest, AJobKeepsItsBits) {
  const Args launch = {"--mode=collective", "--nproc=2"};
  const JobRun off = RunJob("off", launch, {"--steps_max=6"});
  const JobRun on = RunJob("on", launch, {"--steps_max=6", "--param_checksums=2"});
  EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
  EXPECT_THAT(LinesOf(off.output), SizeIs(0));
  EXPECT_THAT(LinesOf(on.output), SizeIs(1));
}

// With these settings the ranks have equal parameters, although each rank has its own state.
TEST_F(ParamChecksumsTest, RanksWithTheirOwnStateHaveEqualParameters) {
  const Args launch = {"--mode=collective", "--nproc=3"};
  const Args settings[] = {
      {"--gradient_merge=true", "--gradient_merge_configs.k_steps=2"},
      {"--dgc=true", "--dgc_configs.rampup_begin_step=0", "--dgc_configs.sparsity=0.9"},
      {"--fp16_allreduce=true"}};
  for (Args args : settings) {
    args.push_back("--optimizer.type=momentum");
    EXPECT_THAT(Checksums("state", launch, args), SizeIs(4)) << args[0];
  }
}

// A rank that is killed returns during comparisons of the ranks.
TEST_F(ParamChecksumsTest, KilledRanksReturn) {
  const Args args = {"--param_checksums=1", "--log_every_steps=1", "--steps_max=120"};
  const Args launch = {"--mode=collective", "--nproc=3", "--max_restarts=5"};
  const std::string plain = RunJob("plain", launch, args).result.params_sha256;
  const auto job = StartJob("killed", launch, args);
  for (const int step : {20, 45, 70}) {
    ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) >= step || job->Ended(); }));
    if (const pid_t rank = TrainerOf(*job, step % 3); rank > 0) kill(rank, SIGKILL);
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("have joined again"));
  EXPECT_EQ(ResultOf("killed").params_sha256, plain);
}

TEST_F(ParamChecksumsTest, SettingsWithDifferentParametersAreRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {"--localsgd=true", "param_checksums cannot be combined with LocalSGD"},
      {"--sharding=true", "param_checksums cannot be combined with sharding"},
      {"--pipeline=true", "param_checksums cannot be combined with pipeline"},
      {"--a_sync=true", "param_checksums cannot be combined with a_sync"},
      {"--mode=hybrid", "param_checksums cannot be combined with mode HYBRID"},
      {"--reader_queue_speed_test_mode=true", "cannot be combined with reader_queue_speed"},
      {"--param_checksums=-1", "param_checksums is -1, expected at least 0"},
  };
  for (const auto& [flag, text] : refused) {
    const auto job = StartJob("refused", {"--mode=local"}, {"--param_checksums=1", flag});
    EXPECT_NE(job->Wait(), 0) << flag;
    EXPECT_THAT(job->Output(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace tandem
