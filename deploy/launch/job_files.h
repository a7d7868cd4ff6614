// Makes the files for the start of a job: log directory, record, secret and certificates.
#pragma once

#include "common/base/status.h"
#include "deploy/launch/held_secrets.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

// Creates socket_dir and the log directory (mode 0700) with job.json (job_record.h). Removes logs
// of earlier jobs that this job would overwrite, or whose ranks this job does not have. Makes a
// secret if the plan has none. Makes certificates for pservers, trainers and an administrator (for
// `tandem`), and discards the key of the authority that signs them. Secret and certificates exist
// until the returned object is destroyed. PERMISSION_DENIED: the directory belongs to another user.
StatusOr<HeldSecrets> PrepareFiles(const LaunchPlan& plan);

}  // namespace tandem::deploy
