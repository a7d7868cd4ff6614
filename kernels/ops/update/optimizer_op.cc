#include "kernels/ops/update/optimizer_op.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem::ops {

Status InferOptimizer(const OpView& view, int scalars, std::span<TensorDesc> outputs) {
  const OpDef* def = FindOp(view.op().type);
  const size_t slots = outputs.size() - 1, rows = RowsAt(slots);
  if (view.has_in(rows)) {
    TD_RETURN_IF_ERROR(NeedRank(view, 0, "Param", 2));
    TD_RETURN_IF_ERROR(NeedSparseRows(view, 1, rows, view.in(0).shape[1]));
  } else {
    TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 1, "Grad"));
  }
  outputs[0] = view.in(0);
  for (size_t i = 2; i < 2 + slots; ++i) {
    if (!view.has_in(i)) continue;
    const char* name = def->inputs[i].name;
    const bool scalar = i + static_cast<size_t>(scalars) >= 2 + slots;
    TD_RETURN_IF_ERROR(scalar ? NeedOne(view, i, name) : NeedSame(view, 0, "Param", i, name));
    outputs[i - 1] = view.in(i);
  }
  TD_RETURN_IF_ERROR(NeedOne(view, LearningRateAt(slots), "LearningRate"));
  return NeedF32(view, static_cast<int>(rows));
}

}  // namespace tandem::ops
