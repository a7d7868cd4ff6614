// The life of one process of a job whose ranks may change while it runs (strategy elastic). In each
// world (collective/rendezvous/world_file.h) it is another rank, with programs, plans and shares of
// the data of its own; from one to the next it takes parameters and optimizer state along in
// memory. Samples, dropout and learning rates follow from a step's number, so who does it changes
// nothing.
#pragma once

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/job/job.h"
#include "trainer/session/local_replicas.h"
#include "trainer/session/session.h"

namespace tandem {

struct ElasticJob {
  JobSources sources;
  // As for LocalReplicas::Make; `rank` as the process was started: its number, the number of
  // processes and the world file.
  SessionOptions options;
  ModeSecrets secrets;
  std::string event_dir;  // where rank 0 of each world writes events (event_file.h); empty: nowhere
};

struct ElasticResult {
  SessionResult result;
  bool leads = false;  // rank 0 of the last world
};

// Whether this job, elastic or started as one, and one for `rank.size` ranks, can be one for the
// fewest that the world file allows. UNIMPLEMENTED naming a setting with which ranks cannot change;
// INVALID_ARGUMENT.
Status CheckElastic(const JobSources& sources, const JobConfig& config, const RankInfo& rank);

// Trains in one world after another until the job's end. Those members of a world train that are
// the first of it, as many as the job can be divided among; the others wait until they are needed.
// The result of a process that was not needed is empty. Otherwise as LocalReplicas::Run.
StatusOr<ElasticResult> RunElastic(const ElasticJob& job, StopSwitch& stop, const Clock& clock);

}  // namespace tandem
