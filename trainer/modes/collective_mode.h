// mode=collective: trainers sum the gradients among themselves, and each trainer runs the optimizer
// on the sum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective/communicator.h"
#include "collective/schedule/hierarchy.h"
#include "kernels/graph/distribute/dgc.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/distribute/fragments.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/rank_world.h"

namespace tandem::trainer {

// Division of the parameters among the ranks (kernels/graph/distribute/shard_params.h).
struct ShardOptions {
  int64_t segment_bytes = 0;
  int group = 0;  // number of ranks that together hold all parameters; 0: all ranks
};

// Options for killed processes that return (tandemrun --max_restarts, elastic jobs).
struct ReturnOptions {
  bool peers_return = false;  // the launcher restarts killed processes
  bool restarted = false;     // true: this process replaces a killed process
  bool has_state = false;     // this rank continues from its state in memory
  std::vector<int> members;   // the launcher's number for each rank; empty: equal to the rank
  // Version of this rank's world. The rank does not train with ranks of another version. 0: the
  // world never changes.
  int64_t world_version = 0;
  // File with the newest world (common/launcher/elastic_world.h); empty: the world never changes.
  std::string world_file;
};

struct CollectiveOptions {
  CommonOptions common;
  WorldOptions world;
  ReturnOptions returns;
  // The following options determine the operators of the programs.
  bool between_devices = false;  // ranks are devices rather than hosts
  bool sync_batch_norm = false;
  bool update_by_owner = false;  // each parameter is updated by one rank (reduce_strategy Reduce)
  bool fuse_broadcast = false;   // fuse broadcasts of parameters; used with update_by_owner
  // Division of the parameters, each of which only its owners store; nullopt: all ranks store all
  // parameters.
  std::optional<ShardOptions> shard;
  std::optional<graph::AverageRule>
      average;  // LocalSGD: average parameters, not gradients; nullopt: off
  // LocalSGD with fragments, a delay or an outer optimizer; used instead of `average`.
  std::optional<graph::FragmentRule> fragments;
  std::optional<graph::DgcRule>
      dgc;  // send only a few elements of large gradients (DGC); nullopt: off
  // The following options determine the communicators.
  bool tree_order = false;  // sum over the ranks in the order of a tree
                            // (collective/schedule/ring.h)
  int comm_num = 1;         // number of communicators; bucket i uses communicator i modulo comm_num
  bool one_comm_at_a_time = true;  // communications run one after another
  int group = 1;  // number of ranks in a group of the hierarchical allreduce; 1: no groups
  // Form of the hierarchical allreduce; used with `group`.
  collective::HierarchyForm form = collective::HierarchyForm::kShards;
  bool choose_by_model = false;  // choose algorithms by a cost model (comms/allreduce_choice.h)
};

CollectiveOptions CollectiveOptionsOf(const JobConfig& config, const RankInfo& rank,
                                      CommonOptions common);

// Makes the collective mode. `communicators`: options.comm_num connected communicators. If
// `communicators` is empty, Join connects the ranks, with NCCL if the scope is on a device.
TrainingMode MakeCollectiveMode(
    const CollectiveOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators);

}  // namespace tandem::trainer
