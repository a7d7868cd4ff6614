// A communication operator of a plan, and its execution by a communicator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/comm.h"
#include "trainer/modes/comms/overlapped_flight.h"
#include "trainer/modes/comms/selection_gather.h"

namespace tandem::trainer {

// On the host, several tensors, or tensors that are sent in another type, are gathered in a flat
// buffer of the communicator, which peers can access. On a device, tensors are sent directly from
// their own memory, in their own type (kernels/graph/distribute/half_communication.h). A device
// sends selections with their whole capacity, because the host does not know the used part
// (kernels/ops/update/dgc.h).
struct CommBucket {
  // Makes the bucket of `node` for rank `rank` of `ranks` ranks. `half_communication`: f32
  // gradients are sent as f16 between hosts. UNIMPLEMENTED: this mode does not support the node.
  static StatusOr<std::unique_ptr<CommBucket>> Make(const exec::CommNode& node, int rank, int ranks,
                                                    bool half_communication);

  // Copies the values to send into the flat buffer, if there is one. Returns the number of elements
  // to send.
  StatusOr<size_t> Gather();
  // Returns the collective call that sends the first `given` elements.
  collective::Collective Call(size_t given) const;
  // Copies the received values from the flat buffer to the tensors. `given`: the result of Gather.
  Status Scatter(size_t given);

  collective::CollectiveOp op = collective::CollectiveOp::kAllReduce;
  int rank = 0, root = 0, group = 0;
  int to = -1, from = -1;  // ranks to send to and to receive from; kSendRecv only
  std::vector<exec::CommTensor> sources,
      tensors;  // tensors that this rank sends (sources) and receives (tensors)
  std::string name;
  DType dtype = DType::kF32;  // type of the sent elements
  bool is_flat = false;       // true: tensors are sent from `flat`; false: from their own memory
  Buffer flat;                // memory of `count` elements; set by the bucket's owner
  bool borrows = false;       // true: the bucket has `flat` only during a flight
  std::optional<SelectionGather> selections;  // selections of a kAllGather between hosts
  size_t count = 0;  // number of elements to send; with selections, the maximum number
  size_t index = 0;  // index among the buckets of the program
  // c_allreduce_begin: its allreduce, which continues after the operator. Otherwise null.
  std::unique_ptr<OverlappedFlight> overlapped;
  CommBucket* ends = nullptr;  // c_allreduce_end: the bucket of c_allreduce_begin; otherwise null

 private:
  int32_t* words() const { return reinterpret_cast<int32_t*>(flat.get()); }
  void Join();
  void Split();
};

}  // namespace tandem::trainer
