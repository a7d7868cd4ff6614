// Builds programs from the knobs of a job, so that tests can check the effects of knobs. Starts no
// process.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_test_util.h"
#include "trainer/config/effective_job.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/pserver_mode.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/programs.h"

namespace tandem::trainer {

using Overrides = std::vector<std::pair<std::string, std::string>>;

// Returns the options of pserver mode for rank 0 of 2 of a small job with these settings. If
// `effective` is not null, *effective gets the job.
PserverOptions PserverModeOptions(const Overrides& knobs, JobConfig* effective = nullptr);

class KnobProgramTest : public JobTest {
 protected:
  // Returns the test's job with these settings. The test fails if the job is invalid.
  EffectiveJob Job(const Overrides& knobs, int workers = 1, int heter_workers = 0) const;
  // Returns the programs that rank `rank` of `ranks` builds for the test's job with these settings.
  // The last `heter_workers` ranks are heter workers. The test fails if the programs cannot be
  // built.
  JobPrograms Programs(const Overrides& knobs, int ranks = 1, int rank = 0, int heter_workers = 0);
  static int Count(const graph::Program& program, const std::string& type);
  // Returns the report of pass `pass`. If the pass did not run, the report has no location and the
  // reason "not run".
  static graph::PassReport ReportOf(const JobPrograms& programs, const std::string& pass);
  // Result of Run. Run executes `program` in this process as a world of one, with the same batch in
  // every step.
  struct Ran {
    std::map<std::string, std::vector<float>> params;  // parameters after the last step
    std::map<std::string, std::vector<float>> state;   // optimizer state after the last step
    size_t arena_bytes = 0;                            // bytes of the plan's temporaries
    size_t inplace = 0;  // number of outputs that reuse the memory of an input
    int communications = 0;
    float loss = 0;  // loss of the last step
  };
  static Ran Run(const graph::Program& program, int steps, float learning_rate = 0.0625f,
                 exec::PlanOptions options = {.threads = 2});
  // Replaces the model of the job, for example by UseModel("zoo: \"mlp\"").
  void UseModel(const std::string& text);
  // Returns the arguments of tandemrun for a job in mode `mode`: one trainer in local mode,
  // otherwise two trainers.
  static std::vector<std::string> Launch(const std::string& mode);
  // Runs the job for 20 steps in mode `mode`, with one rank in local mode, otherwise with two.
  // Returns the hash of the parameters.
  std::string Sha(const std::string& name, const std::string& mode,
                  const std::vector<std::string>& flags) const;
};

}  // namespace tandem::trainer
