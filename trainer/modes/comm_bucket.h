// One communication of a plan, as its communicator is called for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/comm.h"
#include "trainer/modes/selection_gather.h"

namespace tandem::trainer {

// On the host, what is several tensors, or travels in another type, is gathered in a flat buffer of
// its communicator, where the others can reach it. On a device tensors travel from where they are,
// together, in their own type (kernels/graph/passes/half_communication.h) and whole: of selections
// (kernels/ops/update/dgc.h) the host does not know how much of their room is used.
struct CommBucket {
  // Of rank `rank` of `ranks`. `half_communication`: between hosts f32 gradients travel as f16.
  // UNIMPLEMENTED for what does not travel in this mode.
  static StatusOr<std::unique_ptr<CommBucket>> Make(const CommNode& node, int rank, int ranks,
                                                    bool half_communication);

  // Puts together what this rank gives, and says how many elements that is.
  StatusOr<size_t> Gather();
  // The call that carries them.
  collective::Collective Call(size_t given) const;
  // Gives back what came, of as many elements.
  Status Scatter(size_t given);

  collective::CollectiveOp op = collective::CollectiveOp::kAllReduce;
  int rank = 0, root = 0, group = 0;
  int to = -1, from = -1;                    // of kSendRecv
  std::vector<CommTensor> sources, tensors;  // what this rank gives, and what comes
  std::string name;
  DType dtype = DType::kF32;                  // on its way
  bool is_flat = false;                       // else tensors that travel from where they are
  Buffer flat;                                // of `count` elements; the owner's to give
  bool borrows = false;                       // `flat` is its own only while it is under way
  std::optional<SelectionGather> selections;  // of kAllGather between hosts
  size_t count = 0;  // elements; with selections those of all ranks at most
  size_t index = 0;  // in program order

 private:
  int32_t* words() const { return reinterpret_cast<int32_t*>(flat.get()); }
  void Join();
  void Split();
};

}  // namespace tandem::trainer
