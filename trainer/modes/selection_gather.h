// Between the tensors of a c_allgather_selected and the flat buffer of its all-gather: of every
// selection (kernels/ops/update/dgc.h) the words that it uses, one behind the other.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

class SelectionGather {
 public:
  // Of `rank` among `ranks`. The tensors' memory must outlive this.
  SelectionGather(std::vector<CommTensor> selections, std::vector<CommTensor> gathered, int rank,
                  int ranks)
      : selections_(std::move(selections)),
        gathered_(std::move(gathered)),
        rank_(static_cast<size_t>(rank)),
        ranks_(static_cast<size_t>(ranks)) {}

  // Words that a rank gives at most.
  size_t words_max() const;
  // Writes this rank's words to their place among those of all; returns how many a rank gives.
  // INVALID_ARGUMENT for a selection that says more than it has room for.
  StatusOr<size_t> Pack(int32_t* all) const;
  // From all ranks' words to the tensors; `words`: those of one rank. INVALID_ARGUMENT when the
  // selections of a rank do not add up to them.
  Status Unpack(const int32_t* all, size_t words) const;

 private:
  const std::vector<CommTensor> selections_, gathered_;
  const size_t rank_, ranks_;
};

}  // namespace tandem::trainer
