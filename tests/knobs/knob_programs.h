// From the knobs of a job to its programs, for effect tests: no process is started.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_test_util.h"
#include "trainer/job/job.h"
#include "trainer/modes/mode.h"
#include "trainer/session/programs.h"

namespace tandem {

using Overrides = std::vector<std::pair<std::string, std::string>>;

// What pserver mode is told of a small job with these settings, as rank 0 of 2. `effective`: the
// job, or null.
ModeOptions PserverModeOptions(const Overrides& knobs, JobConfig* effective = nullptr);

class KnobProgramTest : public JobTest {
 protected:
  // The test's job with these settings. Fails the test when something is wrong with it.
  EffectiveJob Job(const Overrides& knobs, int workers = 1, int heter_workers = 0) const;
  // Programs of the test's job with these settings, as rank `rank` of `ranks` in the job's mode
  // builds them; of the ranks the last `heter_workers` are such. Fails the test when they cannot be
  // built.
  JobPrograms Programs(const Overrides& knobs, int ranks = 1, int rank = 0, int heter_workers = 0);
  static int Count(const Program& program, const std::string& type);
  // What the pass reported; a report without a place and reason "not run" when it did not run.
  static PassReport ReportOf(const JobPrograms& programs, const std::string& pass);
  // Runs a program of Programs() in this process, as a world of one, on a batch that is the same at
  // every step.
  struct Ran {
    std::map<std::string, std::vector<float>> params;  // afterwards
    std::map<std::string, std::vector<float>> state;   // likewise
    size_t arena_bytes = 0;                            // temporaries of the plan
    size_t inplace = 0;                                // outputs that took over an input's memory
    int communications = 0;
    float loss = 0;  // of the last step
  };
  static Ran Run(const Program& program, int steps, float learning_rate = 0.0625f,
                 PlanOptions options = {.threads = 2});
  // The job with another model of the zoo: UseModel("zoo: \"mlp\"").
  void UseModel(const std::string& text);
  // How tandemrun starts a job in this mode with two trainers; local: with one.
  static std::vector<std::string> Launch(const std::string& mode);
  // Hash of the parameters after 20 steps in mode `mode` (two ranks unless local).
  std::string Sha(const std::string& name, const std::string& mode,
                  const std::vector<std::string>& flags) const;
};

}  // namespace tandem
