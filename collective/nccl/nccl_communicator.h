// The communicator of ranks that are devices, over NCCL. Its thread submits operations in call
// order to its own stream and waits for their end.
#pragma once

#include <memory>

#include "collective/communicator.h"
#include "collective/nccl/nccl_library.h"
#include "collective/schedule/hierarchy.h"

namespace tandem::collective {

// Must be the same on all ranks.
struct NcclOptions {
  int number = 0;  // number among the job's communicators, for messages
  Duration start_timeout = std::chrono::seconds(60);
  Duration operation_timeout = std::chrono::minutes(5);  // for calls without a deadline
  size_t queue_max = 1024;                               // most operations that wait to run
  // Ranks of a group, for the hierarchical allreduce; 1: no groups. The number of ranks must be a
  // multiple. Each group has its own NCCL communicator (inter), and so have the ranks that
  // represent the groups (exter).
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
};

// Connects the devices of all ranks and blocks until all ranks are there, at most start_timeout.
// `device` and `control` must outlive the communicator.
//
// Calls work on memory of `device`. They begin after all work that its compute stream has when the
// call is made. When the Work is done, later work of the device may use the result. The order of
// sums is NCCL's: a+b for two ranks, the same bits on every rank. The bits of a reduce-scatter may
// differ from those of an allreduce. AllToAll and SendRecv in place are rejected, because NCCL
// would send from the memory into which it receives.
//
// `control` connects the same ranks in host memory. It transfers NCCL's unique ids; nothing else
// may use it meanwhile. It also reports ranks that died or gave up, which NCCL does not. A failure
// of `control` ends this communicator, and the other way round.
StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclLibrary& nccl, Device& device,
                                                    Communicator& control,
                                                    const NcclOptions& options);

}  // namespace tandem::collective
