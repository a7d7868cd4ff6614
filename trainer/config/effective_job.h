// The effective job: a job after all overrides and checks, and values that follow from its
// settings. trainer/job/job.h makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Pairs of a name (a field of the job or a knob) and a value as text.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct EffectiveJob {
  std::unique_ptr<JobConfig> config;
  std::string text;   // settings that differ from the defaults, with origins, one per line
  std::string notes;  // notes for the user; may be empty

  EffectiveJob();
  EffectiveJob(EffectiveJob&&) noexcept;
  EffectiveJob& operator=(EffectiveJob&&) noexcept;
  ~EffectiveJob();
};

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
// Returns whether the job sets use_dali: the training step makes the samples from image lists.
bool SamplesInStep(const JobConfig& config);

}  // namespace tandem::trainer
