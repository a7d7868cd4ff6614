// One communication of a plan, in the form in which its communicator is called.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/comm.h"
#include "trainer/modes/comms/selection_gather.h"

namespace tandem::trainer {

// On the host, several tensors, or tensors that are sent in another type, are gathered in a flat
// buffer of the communicator. Peers can access this buffer.
// On a device, tensors are sent directly from their own memory, in their own type
// (kernels/graph/distribute/half_communication.h) and in full. The host does not know how much of a
// selection's capacity is used (kernels/ops/update/dgc.h).
struct CommBucket {
  // Makes the bucket of rank `rank` out of `ranks`. `half_communication`: f32 gradients are sent as
  // f16 between hosts. UNIMPLEMENTED: the node cannot be communicated in this mode.
  static StatusOr<std::unique_ptr<CommBucket>> Make(const CommNode& node, int rank, int ranks,
                                                    bool half_communication);

  // Gathers the values that this rank sends, and returns their number of elements.
  StatusOr<size_t> Gather();
  // Returns the collective call for `given` elements.
  collective::Collective Call(size_t given) const;
  // Copies the received values, `given` elements, to the tensors.
  Status Scatter(size_t given);

  collective::CollectiveOp op = collective::CollectiveOp::kAllReduce;
  int rank = 0, root = 0, group = 0;
  int to = -1, from = -1;                    // only for kSendRecv
  std::vector<CommTensor> sources, tensors;  // sent by this rank, and received
  std::string name;
  DType dtype = DType::kF32;  // type of the sent elements
  bool is_flat = false;       // false: tensors are sent from their own memory
  Buffer flat;                // `count` elements; set by the bucket's owner
  bool borrows = false;       // `flat` belongs to the bucket only while it is in flight
  std::optional<SelectionGather> selections;  // for kAllGather between hosts
  size_t count = 0;  // elements; with selections, the maximum over all ranks
  size_t index = 0;  // in program order

 private:
  int32_t* words() const { return reinterpret_cast<int32_t*>(flat.get()); }
  void Join();
  void Split();
};

}  // namespace tandem::trainer
