// The properties of a job and a rank that several training modes need. The header of each mode
// defines the options that only this mode needs.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/optimizer.h"
#include "trainer/config/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// The credentials with which a worker authenticates itself to its peers.
struct ModeSecrets {
  std::string job;                      // secret of the job; empty: the job has none
  rpc::TlsFiles tls;                    // certificates for connections to pservers and ranks
  bool insecure_allow_network = false;  // allow pservers at network addresses without TLS
};

struct CommonOptions {
  std::string job;
  int rank = 0, ranks = 1;
  ModeSecrets secrets;
  // The settings that must be equal on all ranks (trainer/config/job_agreement.h); empty: the ranks
  // do not compare their settings.
  Agreement agreement;
  graph::OptimizerSpec optimizer;
  uint64_t seed = 0;  // seed of the initial values
  Duration start_timeout = std::chrono::seconds(60);
  Duration step_timeout = std::chrono::seconds(60);
  std::string job_dir;              // base of relative paths; "" or with a slash at the end
  std::string launcher;             // FIFO of the launcher (common/launcher/launcher_words.h)
  bool fuse_all_reduce = true;      // one collective call reduces several gradients
  graph::GroupRule group_rule;      // how fuse_all_reduce groups the gradients
  bool half_communication = false;  // f32 gradients are sent as f16

  bool leader() const { return rank == 0; }
};

CommonOptions CommonOptionsOf(const JobConfig& config, const RankInfo& rank,
                              const ModeSecrets& secrets, Agreement agreement = {});

}  // namespace tandem::trainer
