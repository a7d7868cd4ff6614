// Builds the effective job from the job file, the environment and flags, and checks it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "trainer/config/effective_job.h"

namespace tandem::strategy {
class Diagnostics;
struct TextFile;
}  // namespace tandem::strategy

namespace tandem::trainer {

struct JobSources {
  std::string path;    // path of the job file; empty: there are only flags
  Settings overrides;  // settings that flags of the program set
  // The flag names of the program, used to suggest a name for a misspelled override.
  std::vector<std::string> flags;
  std::map<std::string, std::string> environment;
  Settings chosen;        // settings that `auto` chose; other sources override them
  int heter_workers = 0;  // number of heter workers in addition to the workers
  // True: the caller builds the model and runs the steps. Such a job has no model, data and batch
  // size, so CheckJob does not check them.
  bool stepped_by_caller = false;
};

// Builds and checks the job. Reports all errors to `diagnostics`. The caller may run the job only
// if `diagnostics` has no errors. `file`: the content of sources.path; nullptr: there are only
// flags.
EffectiveJob CheckJob(const strategy::TextFile* file, const JobSources& sources, int workers,
                      strategy::Diagnostics* diagnostics);

// Calls CheckJob with the file at sources.path. INVALID_ARGUMENT: the job has errors; the message
// lists each error as file:line:col: error: ...
StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers);

}  // namespace tandem::trainer
