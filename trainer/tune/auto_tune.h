// Implements auto: true. It runs some steps of the job on its first batch, with each setting that
// matters on this machine, and chooses the fastest. It never changes a setting from the job, the
// environment or a flag.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/job/job.h"
#include "trainer/session/local_replicas.h"

namespace tandem::trainer {

struct AutoTuneContext {
  JobSources sources;
  SessionOptions session;  // only its rank and job_dir are used
  ModeSecrets secrets;
  // Rank 0 only: receives a line for each measurement.
  std::function<void(const std::string& line)> tell;
};

// In local and collective mode a trial runs the job on all its ranks. They use the time of the
// slowest rank and choose the same settings. In pserver and hybrid mode each trainer measures its
// own work without the servers, and only chooses settings that may differ between trainers. The
// choice is stored beside the checkpoints, and a resumed job uses it again. CANCELLED: `stop` was
// called. Other errors: the job cannot run, or ranks are lost.
StatusOr<Settings> AutoTune(const AutoTuneContext& context, const JobConfig& job, StopSwitch& stop,
                            const Clock& clock);

}  // namespace tandem::trainer
