// Builds the effective job from file, environment and flags, and checks it.
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
  std::string path;                // job file; empty: only flags
  Settings overrides;              // settings from flags
  std::vector<std::string> flags;  // the program's flag names, to suggest one for a misspelled
                                   // override
  std::map<std::string, std::string> environment;
  Settings chosen;        // by `auto`; settings from other sources override them
  int heter_workers = 0;  // in addition to the workers
};

struct EffectiveJob {
  std::unique_ptr<JobConfig> config;
  std::string text;   // the settings that differ from the defaults, with origins, one per line
  std::string notes;  // notes for the user; may be empty

  EffectiveJob();
  EffectiveJob(EffectiveJob&&) noexcept;
  EffectiveJob& operator=(EffectiveJob&&) noexcept;
  ~EffectiveJob();
};

// Builds and checks the job. Reports all errors to `diagnostics`; the job may only run if there are
// none. `file`: the content of sources.path; nullptr: only flags.
EffectiveJob CheckJob(const strategy::TextFile* file, const JobSources& sources, int workers,
                      strategy::Diagnostics* diagnostics);

// Calls CheckJob with the file at sources.path. INVALID_ARGUMENT: the job has errors; the message
// lists each one as file:line:col: error: ...
StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers);

// The directory of a job file, to which its paths are relative: "" or ends with a slash. Paths in
// flags are relative to the working directory.
std::string JobDir(const std::string& path);
// Resolves `path` of a job in the directory `job_dir`; "" stays "".
std::string InJobDir(const std::string& job_dir, const std::string& path);

// Samples of a step over all workers.
int64_t GlobalBatch(const JobConfig& config, int workers);
// The number of ranks (replicas) of one worker. CheckJob has checked that the batch is large
// enough.
int PlacesOf(const JobConfig& config);

}  // namespace tandem::trainer
