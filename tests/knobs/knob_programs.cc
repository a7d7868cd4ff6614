#include "tests/knobs/knob_programs.h"

#include "proto/job.pb.h"
#include "trainer/job.h"

namespace tandem {

JobPrograms KnobProgramTest::Programs(const Overrides& knobs, int ranks) {
  JobSources sources;
  sources.path = job_;
  sources.overrides = knobs;
  const auto job = LoadJob(sources, ranks);
  EXPECT_TRUE(job.ok()) << job.status();
  RankInfo rank;
  rank.size = ranks;
  rank.rendezvous = "127.0.0.1:1";
  rank.pservers = {"127.0.0.1:1"};
  const auto options = ModeOptionsOf(*job->config, rank, "secret");
  EXPECT_TRUE(options.ok()) << options.status();
  const auto mode = MakeMode(*job->config, *options);
  EXPECT_TRUE(mode.ok()) << mode.status();
  auto programs = BuildPrograms(*job->config, "", 8, ranks, **mode);
  EXPECT_TRUE(programs.ok()) << programs.status();
  return *std::move(programs);
}

int KnobProgramTest::Count(const Program& program, const std::string& type) {
  int count = 0;
  for (const Op& op : program.ops) count += op.type == type ? 1 : 0;
  return count;
}

PassReport KnobProgramTest::ReportOf(const JobPrograms& programs, const std::string& pass) {
  for (const PassReport& report : programs.passes) {
    if (report.name == pass) return report;
  }
  PassReport none;
  none.outcome.reason = "not run";
  return none;
}

std::string KnobProgramTest::Sha(const std::string& name, const std::string& mode,
                                 const std::vector<std::string>& flags) const {
  std::vector<std::string> launch = {"--mode=" + mode};
  if (mode != "local") launch.push_back("--nproc=2");
  std::vector<std::string> args = {"--steps_max=20"};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunJob(name, launch, args).result.params_sha256;
}

}  // namespace tandem
