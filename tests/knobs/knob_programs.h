// From the knobs of a job to its programs, for effect tests: no process is started.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_test_util.h"
#include "trainer/programs.h"

namespace tandem {

using Overrides = std::vector<std::pair<std::string, std::string>>;

class KnobProgramTest : public JobTest {
 protected:
  // Programs of the test's job with these settings, as rank 0 of `ranks` in the job's mode builds
  // them. Fails the test when they cannot be built.
  JobPrograms Programs(const Overrides& knobs, int ranks = 1);
  static int Count(const Program& program, const std::string& type);
  // What the pass reported; a report without a place and reason "not run" when it did not run.
  static PassReport ReportOf(const JobPrograms& programs, const std::string& pass);
  // Hash of the parameters after 20 steps in mode `mode` (two ranks unless local).
  std::string Sha(const std::string& name, const std::string& mode,
                  const std::vector<std::string>& flags) const;
};

}  // namespace tandem
