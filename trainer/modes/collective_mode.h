// mode=collective: trainers reduce gradients among themselves, and each runs the optimizer on the
// sum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"
#include "collective/schedule/hierarchy.h"
#include "kernels/graph/distribute/dgc.h"
#include "kernels/graph/distribute/distribute.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/rank_world.h"

namespace tandem::trainer {

// Division of the parameters among the ranks (kernels/graph/distribute/shard_params.h).
struct ShardOptions {
  int64_t segment_bytes = 0;
  int group = 0;  // ranks that together hold all parameters; 0: all ranks
};

// The return of killed processes (tandemrun --max_restarts, elastic jobs).
struct ReturnOptions {
  bool peers_return = false;  // killed processes are restarted
  bool restarted = false;     // this rank is such a restarted process
  bool has_state = false;     // this rank continues from its state in memory
  std::vector<int> members;   // the launcher's number of each rank; empty: the same
  // Ranks of another version are not accepted; 0: there is one world only.
  int64_t world_version = 0;
};

struct CollectiveOptions {
  CommonOptions common;
  WorldOptions world;
  ReturnOptions returns;
  // For the programs:
  bool between_devices = false;  // ranks are devices rather than hosts
  bool sync_batch_norm = false;
  bool update_by_owner = false;        // reduce_strategy Reduce
  bool fuse_broadcast = false;         // used with update_by_owner
  std::optional<ShardOptions> shard;   // parameters too are stored on their owners only
  std::optional<AverageRule> average;  // LocalSGD: parameters are sent, not gradients
  std::optional<DgcRule> dgc;          // only a few elements of large gradients are sent
  // For the communicators:
  bool tree_order = false;         // order of sums over ranks (collective/schedule/ring.h)
  int comm_num = 1;                // number of communicators; bucket i uses number i modulo this
  bool one_comm_at_a_time = true;  // for any number of communicators
  int group = 1;                   // ranks per group of the hierarchical allreduce; 1: none
  collective::HierarchyForm form = collective::HierarchyForm::kShards;  // used with `group`
  bool choose_by_model = false;  // allreduce algorithms (trainer/modes/comms/allreduce_choice.h)
};

CollectiveOptions CollectiveOptionsOf(const JobConfig& config, const RankInfo& rank,
                                      CommonOptions common);

// Makes collective mode over `communicators` (options.comm_num). If empty, Join connects them; it
// uses NCCL if the scope is on a device.
TrainingMode MakeCollectiveMode(
    const CollectiveOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators);

}  // namespace tandem::trainer
