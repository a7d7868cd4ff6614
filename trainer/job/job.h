// Builds the effective job from the job file, the environment and flags, and checks it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
struct TextFile;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Pairs of a name (a field of the job or a knob) and a value as text.
using Settings = std::vector<std::pair<std::string, std::string>>;

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

struct EffectiveJob {
  std::unique_ptr<JobConfig> config;
  std::string text;   // settings that differ from the defaults, with origins, one per line
  std::string notes;  // notes for the user; may be empty

  EffectiveJob();
  EffectiveJob(EffectiveJob&&) noexcept;
  EffectiveJob& operator=(EffectiveJob&&) noexcept;
  ~EffectiveJob();
};

// Builds and checks the job. Reports all errors to `diagnostics`. The caller may run the job only
// if `diagnostics` has no errors. `file`: the content of sources.path; nullptr: there are only
// flags.
EffectiveJob CheckJob(const strategy::TextFile* file, const JobSources& sources, int workers,
                      strategy::Diagnostics* diagnostics);

// Calls CheckJob with the file at sources.path. INVALID_ARGUMENT: the job has errors; the message
// lists each error as file:line:col: error: ...
StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers);

// Returns the directory of the job file `path`: "", or a path that ends with a slash. Paths in the
// job file are relative to this directory; paths in flags are relative to the working directory.
std::string JobDir(const std::string& path);
// Returns `path`, a path in a job file, relative to `job_dir`. "" and absolute paths are unchanged.
std::string InJobDir(const std::string& job_dir, const std::string& path);

// Returns the number of samples of a step on all workers.
int64_t GlobalBatch(const JobConfig& config, int workers);
// Returns the number of ranks (replicas) of one worker. CheckJob has checked that each replica gets
// at least one sample of the batch.
int PlacesOf(const JobConfig& config);

}  // namespace tandem::trainer
