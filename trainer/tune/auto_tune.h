// auto: true. Some steps of the job itself, on the data of its first batch, with each of the
// settings that matter on this machine; what is fastest is chosen. What the job, the environment or
// a flag sets is never touched.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/job/job.h"
#include "trainer/session/local_replicas.h"

namespace tandem {

struct AutoTuneContext {
  JobSources sources;
  SessionOptions session;  // its rank and job_dir
  ModeSecrets secrets;
  // Rank 0 alone: a line for each thing that was measured.
  std::function<void(const std::string& line)> tell;
};

// In local and collective mode trials are the job with its ranks, which take the time of the
// slowest and choose the same. In pserver and hybrid mode each trainer measures its own share of
// the work without the servers, and chooses among settings that are its own affair. With
// checkpoints the choice is kept beside them, and a job that goes on has the one that it began
// with. CANCELLED after `stop`; an error when the job cannot be run as it is, or ranks are lost.
StatusOr<Settings> AutoTune(const AutoTuneContext& context, const JobConfig& job, StopSwitch& stop,
                            const Clock& clock);

}  // namespace tandem
