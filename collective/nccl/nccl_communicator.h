// A communicator whose ranks are devices, over NCCL. Its thread submits operations in call order to
// a separate stream of the device, and waits until they have ended.
#pragma once

#include <memory>

#include "collective/communicator.h"
#include "collective/nccl/nccl_library.h"
#include "collective/schedule/hierarchy.h"

namespace tandem::collective {

// Options of ConnectNccl. They must be equal on all ranks.
struct NcclOptions {
  int number = 0;  // number of the communicator in the job, for messages
  Duration start_timeout = std::chrono::seconds(60);
  Duration operation_timeout = std::chrono::minutes(5);  // time limit for calls without a deadline
  size_t queue_max = 1024;                               // maximum number of queued operations
  // Number of ranks in a group, for the hierarchical allreduce; 1: no groups. The total number of
  // ranks must be a multiple of `group`. Each group has its own NCCL communicator (Paddle: inter).
  // The ranks that represent the groups have a separate NCCL communicator (Paddle: exter).
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
};

// Connects the devices of all ranks. Blocks until all ranks have called ConnectNccl, but at most
// for start_timeout. `device` and `control` must outlive the communicator.
//
// The buffers of calls are memory of `device`. An operation begins after all work that is in the
// device's compute stream at the time of the call. When the Work is done, later work of the device
// may use the result. NCCL determines the order of sums; with two ranks the sum is a + b. Every
// rank gets the same bits. The bits of a reduce-scatter may differ from those of an allreduce. The
// communicator rejects AllToAll and SendRecv in place, because NCCL would send from the memory into
// which it receives.
//
// `control` connects the same ranks in host memory. It transfers NCCL's unique ids; nothing else
// may use `control` while the communicator exists. `control` also reports ranks that died or
// aborted, because NCCL does not report them. A failure of `control` ends this communicator, and a
// failure of this communicator ends `control`.
StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const NcclLibrary& nccl, Device& device,
                                                    Communicator& control,
                                                    const NcclOptions& options);

}  // namespace tandem::collective
