// Implements `auto: true`. Runs some steps of the job on its first batch with alternative settings,
// and chooses the fastest settings. Never changes a setting that the job file, the environment or a
// flag determines.
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
  SessionOptions session;  // only the fields rank and job_dir are used
  ModeSecrets secrets;
  // Receives a line for each measurement; called on rank 0 only.
  std::function<void(const std::string& line)> tell;
};

// Chooses settings by trials. In local and collective mode a trial runs the job on all ranks. The
// ranks use the time of the slowest rank and choose the same settings. AutoTune stores the chosen
// settings in the directory of the checkpoints, and a resumed job uses the stored settings. In
// pserver and hybrid mode each trainer measures its own work without the servers, and chooses only
// settings that may differ between trainers. CANCELLED: `stop` was called. Other errors: the job
// cannot run, or ranks are lost.
StatusOr<Settings> AutoTune(const AutoTuneContext& context, const JobConfig& job, StopSwitch& stop,
                            const Clock& clock);

}  // namespace tandem::trainer
