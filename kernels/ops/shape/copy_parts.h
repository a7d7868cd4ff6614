// Describes the work of transpose, concat, split, slice, their gradients and reorder as a list of
// copies. CPU and CUDA kernels execute this list.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/strided_copy.h"

namespace tandem::ops {

// A copy of a window of input `in` to a window of output `out`. `from`, `to`: byte offsets.
struct CopyPart {
  StridedCopy copy;
  size_t in, from, out, to;
};

struct CopyParts {
  std::vector<CopyPart> parts;
  size_t zeros = 0;  // number of bytes of output 0 that are set to zero first
};

StatusOr<CopyParts> TransposeParts(const OpView& view);
StatusOr<CopyParts> ConcatParts(const OpView& view);
StatusOr<CopyParts> ConcatGradParts(const OpView& view);
StatusOr<CopyParts> SplitParts(const OpView& view);
StatusOr<CopyParts> SplitGradParts(const OpView& view);
StatusOr<CopyParts> SliceParts(const OpView& view);
StatusOr<CopyParts> SliceGradParts(const OpView& view);
StatusOr<CopyParts> ReorderParts(const OpView& view);

}  // namespace tandem::ops
