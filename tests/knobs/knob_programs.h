// Builds programs from the knobs of a job, for effect tests; starts no process.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_test_util.h"
#include "trainer/job/job.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/pserver_mode.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/programs.h"

namespace tandem::trainer {

using Overrides = std::vector<std::pair<std::string, std::string>>;

// The options of pserver mode for a small job with these settings, as rank 0 of 2. `effective`:
// receives the job; may be null.
PserverOptions PserverModeOptions(const Overrides& knobs, JobConfig* effective = nullptr);

class KnobProgramTest : public JobTest {
 protected:
  // The test's job with these settings. Fails the test if the job is invalid.
  EffectiveJob Job(const Overrides& knobs, int workers = 1, int heter_workers = 0) const;
  // Programs of the test's job with these settings, built in the job's mode as rank `rank` of
  // `ranks`, the last `heter_workers` of which are heter workers. Fails the test if they cannot be
  // built.
  JobPrograms Programs(const Overrides& knobs, int ranks = 1, int rank = 0, int heter_workers = 0);
  static int Count(const Program& program, const std::string& type);
  // The report of the pass; a report without a location and with reason "not run" if the pass did
  // not run.
  static PassReport ReportOf(const JobPrograms& programs, const std::string& pass);
  // Results of Run, which runs a program of Programs() in this process as a world of one, with the
  // same batch at every step.
  struct Ran {
    std::map<std::string, std::vector<float>> params;  // after the last step
    std::map<std::string, std::vector<float>> state;   // after the last step
    size_t arena_bytes = 0;                            // temporaries of the plan
    size_t inplace = 0;                                // outputs that reuse the memory of an input
    int communications = 0;
    float loss = 0;  // loss of the last step
  };
  static Ran Run(const Program& program, int steps, float learning_rate = 0.0625f,
                 PlanOptions options = {.threads = 2});
  // The job with another model of the zoo: UseModel("zoo: \"mlp\"").
  void UseModel(const std::string& text);
  // Arguments of tandemrun for a job in this mode with two trainers (local: one).
  static std::vector<std::string> Launch(const std::string& mode);
  // Hash of the parameters after 20 steps in mode `mode` (two ranks unless local).
  std::string Sha(const std::string& name, const std::string& mode,
                  const std::vector<std::string>& flags) const;
};

}  // namespace tandem::trainer
