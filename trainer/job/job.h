// The effective job: file, environment and flags put together and checked.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace tandem {

class Diagnostics;
class JobConfig;
struct TextFile;

// Names of fields of the job or knobs, each with a value as text.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct JobSources {
  std::string path;                // job file; empty: flags alone
  Settings overrides;              // by flags
  std::vector<std::string> flags;  // of the program: what an override may have meant
  std::map<std::string, std::string> environment;
  Settings chosen;        // by `auto`: what is set anywhere else stays
  int heter_workers = 0;  // beside the workers
};

struct EffectiveJob {
  std::unique_ptr<JobConfig> config;
  std::string text;   // what differs from the defaults, with origins, one a line
  std::string notes;  // what the user should know; may be empty

  EffectiveJob();
  EffectiveJob(EffectiveJob&&) noexcept;
  EffectiveJob& operator=(EffectiveJob&&) noexcept;
  ~EffectiveJob();
};

// Puts the job together and checks it. Everything wrong goes into `diagnostics`; the job is one to
// run only when nothing did. `file`: sources.path, already read; nullptr: flags alone.
EffectiveJob CheckJob(const TextFile* file, const JobSources& sources, int workers,
                      Diagnostics* diagnostics);

// CheckJob of the file at sources.path. INVALID_ARGUMENT with every error found, in the shape
// file:line:col: error: ...
StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers);

// The folder of a job file, which its relative paths begin at (those of flags at the working
// directory): "" or ends with a slash.
std::string JobDir(const std::string& path);
// `path` of a job in the folder `job_dir`; "" stays.
std::string InJobDir(const std::string& job_dir, const std::string& path);

// Samples of a step over all workers.
int64_t GlobalBatch(const JobConfig& config, int workers);
// How many ranks one worker is: its places. CheckJob has seen that the batch is enough for them.
int PlacesOf(const JobConfig& config);

}  // namespace tandem
