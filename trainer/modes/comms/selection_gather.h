// Copies values between the tensors of a c_allgather_selected operator and the flat buffer of its
// all-gather. The buffer contains the used words of each selection (kernels/ops/update/dgc.h),
// without gaps.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/exec/comm.h"

namespace tandem::trainer {

class SelectionGather {
 public:
  // `rank`: this rank's number among `ranks` ranks. The tensors' memory must outlive this object.
  SelectionGather(std::vector<exec::CommTensor> selections, std::vector<exec::CommTensor> gathered,
                  int rank, int ranks)
      : selections_(std::move(selections)),
        gathered_(std::move(gathered)),
        rank_(static_cast<size_t>(rank)),
        ranks_(static_cast<size_t>(ranks)) {}

  // Returns the maximum number of words that a rank sends.
  size_t words_max() const;
  // Writes this rank's words into `all`, at the offset of this rank. Returns the number of words,
  // which is equal on all ranks. INVALID_ARGUMENT: a selection reports more used words than its
  // capacity.
  StatusOr<size_t> Pack(int32_t* all) const;
  // Copies the words of all ranks from `all` to the tensors; `words` is the number of words per
  // rank. INVALID_ARGUMENT: the selections of a rank do not have `words` words together, or a
  // selection reports more used words than its capacity.
  Status Unpack(const int32_t* all, size_t words) const;

 private:
  const std::vector<exec::CommTensor> selections_, gathered_;
  const size_t rank_, ranks_;
};

}  // namespace tandem::trainer
