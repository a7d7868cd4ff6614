// The properties of a job and a rank that several modes need. Each mode has further options in its
// own header.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "trainer/job/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// The credentials that a worker presents to its peers.
struct ModeSecrets {
  std::string job;                      // the job's secret; empty: none
  rpc::TlsFiles tls;                    // for connections to pservers
  bool insecure_allow_network = false;  // allow pservers at network addresses without TLS
};

struct CommonOptions {
  std::string job;
  int rank = 0, ranks = 1;
  ModeSecrets secrets;
  Agreement agreement;  // trainer/job/job_agreement.h; empty: not compared
  OptimizerSpec optimizer;
  uint64_t seed = 0;  // for the initial values
  Duration start_timeout = std::chrono::seconds(60);
  Duration step_timeout = std::chrono::seconds(60);
  std::string launcher;             // address for reports of unresponsive processes
  bool fuse_all_reduce = true;      // several gradients share a collective call
  GroupRule group_rule;             // used with fuse_all_reduce
  bool half_communication = false;  // f32 gradients are sent as f16

  bool leader() const { return rank == 0; }
};

CommonOptions CommonOptionsOf(const JobConfig& config, const RankInfo& rank,
                              const ModeSecrets& secrets, Agreement agreement = {});

}  // namespace tandem::trainer
