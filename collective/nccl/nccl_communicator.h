// The communicator of ranks that are devices, over NCCL: a thread that puts operations on a stream
// of its own, in call order, and watches them to their end.
#pragma once

#include <memory>

#include "collective/communicator.h"
#include "collective/nccl/nccl_library.h"
#include "collective/schedule/hierarchy.h"

namespace tandem {

// The same on all ranks.
struct NcclOptions {
  int number = 0;  // which one of the job's communicators, for messages
  Duration start_timeout = std::chrono::seconds(60);
  Duration operation_timeout = std::chrono::minutes(5);  // where a call names no deadline
  size_t queue_max = 1024;                               // operations waiting to run
  // Ranks of a group, for hierarchical allreduce; 1: no groups. The size must be a multiple. Each
  // group has a communicator of its own (inter), and so have those who speak for the groups
  // (exter).
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
};

// Calls are on memory of `device`, and begin behind what its compute stream has been given when
// they are made; the device's work may go on with a result once the Work is done. The order of sums
// is NCCL's: a+b of two ranks, and the same bits on every rank; those of a reduce-scatter need not
// be an allreduce's. AllToAll and SendRecv in place are refused: NCCL sends from where it receives
// to.
//
// `control` connects the same ranks in host memory. The unique ids travel over it (nobody else uses
// it meanwhile), and it says who died or gave up, which NCCL does not: whatever ends it ends this
// communicator, and the other way round. Blocks until all ranks are there or start_timeout.
// Device and control must outlive the communicator.
StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclLibrary& nccl, Device& device,
                                                    Communicator& control,
                                                    const NcclOptions& options);

}  // namespace tandem
