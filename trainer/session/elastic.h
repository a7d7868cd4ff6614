// Runs one process of an elastic job: its ranks may change while it runs (strategy elastic).
//
// The process has a different rank in each world (common/launcher/elastic_world.h), with
// separate programs, plans and shares of the data. It carries parameters and optimizer state from
// one world to the next in memory. Samples, dropout and learning rates depend only on the step
// number, so a change of ranks does not change the result.
#pragma once

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/job/job.h"
#include "trainer/session/local_replicas.h"
#include "trainer/session/session.h"

namespace tandem::trainer {

struct ElasticJob {
  JobSources sources;
  // As for LocalReplicas::Make. `rank` is the rank at process start: its number, the number of
  // processes and the world file.
  SessionOptions options;
  ModeSecrets secrets;
  std::string event_dir;  // where rank 0 of each world writes events (event_file.h); empty: nowhere
};

struct ElasticResult {
  SessionResult result;
  bool leads = false;  // whether this process is rank 0 of the last world
};

// Checks that the job can run elastically: with `rank.size` ranks and with the fewest ranks that
// the world file allows. UNIMPLEMENTED: a setting forbids a change of ranks; the message names it.
// INVALID_ARGUMENT: the job is invalid.
Status CheckElastic(const JobSources& sources, const JobConfig& config, const RankInfo& rank);

// Trains in one world after another until the job ends. The first members of a world train, as many
// as the job can be divided among. The other members wait until they are needed. The result is
// empty if the process was never needed. Otherwise as LocalReplicas::Run.
StatusOr<ElasticResult> RunElastic(const ElasticJob& job, StopSwitch& stop, const Clock& clock);

}  // namespace tandem::trainer
