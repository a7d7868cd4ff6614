// The files that a job needs before its processes start: log directory, record, secret and
// certificates.
#pragma once

#include "common/base/status.h"
#include "deploy/launch/held_secrets.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

// Creates the log directory (mode 0700) with job.json (job_record.h), and socket_dir. Removes logs
// of earlier runs for ranks of this plan, and for ranks that the job has on no host. Makes the
// secret if the plan has none, and the certificates: a pserver's, a trainer's, and an admin's for
// `tandem`. The authority's key is not kept. These files exist as long as the returned value.
// PERMISSION_DENIED: the directory belongs to another user.
StatusOr<HeldSecrets> PrepareFiles(const LaunchPlan& plan);

}  // namespace tandem::deploy
