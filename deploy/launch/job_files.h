// Makes the files for the start of a job: log directory, record, secret and certificates.
#pragma once

#include "common/base/status.h"
#include "deploy/launch/held_secrets.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

// Creates the log directory (mode 0700) with job.json (job_record.h), and socket_dir. Removes logs
// of earlier runs: those of the ranks of this plan, and those of ranks that the job does not have.
// Makes a secret if the plan has none. Makes certificates for pservers, trainers, and an
// administrator (for `tandem`); the authority's key is not kept. Secret and certificates exist
// until the returned object is destroyed. PERMISSION_DENIED: the directory belongs to another user.
StatusOr<HeldSecrets> PrepareFiles(const LaunchPlan& plan);

}  // namespace tandem::deploy
