#include "kernels/ops/rows/sparse_rows.h"

#include <algorithm>

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

Status NeedSparseRows(const OpView& view, size_t values, size_t rows, int64_t dim) {
  const TensorDesc &v = view.in(values), &r = view.in(rows);
  if (r.dtype != DType::kI64 || r.shape.rank() != 1) return view.Error("input Rows must be i64[n]");
  if (v.dtype != DType::kF32 || v.shape.rank() != 2 || v.shape[0] != r.shape[0] ||
      (dim >= 0 && v.shape[1] != dim)) {
    const std::string width = dim < 0 ? "dim" : std::to_string(dim);
    return view.Error(absl::StrFormat("the values of the %d sparse rows must be f32[%d,%s]",
                                      r.shape[0], r.shape[0], width));
  }
  return OkStatus();
}

StatusOr<int64_t> CheckSparseRows(std::span<const int64_t> rows, int64_t height) {
  int64_t count = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == -1) continue;
    const bool follows_all = count == static_cast<int64_t>(i);
    const bool ascends = i == 0 || rows[i] > rows[i - 1];
    if (!follows_all || !ascends || rows[i] < 0 || rows[i] >= height) {
      return InvalidArgument(
          "Rows[%d] is %d, but row numbers must ascend within 0 to %d, and only -1 may follow them",
          i, rows[i], height - 1);
    }
    ++count;
  }
  return count;
}

namespace {

Status NeedHeight(const OpView& view) {
  if (view.op().attrs.contains("height") &&
      !std::holds_alternative<int64_t>(view.op().attrs.at("height"))) {
    return view.Error("attribute height must be an integer");
  }
  const auto height = view.attr<int64_t>("height");
  if (height >= 1 && height < int64_t{1} << 32) return OkStatus();
  return view.Error(absl::StrFormat("attribute height=%d must be from 1 to 2^32 - 1", height));
}

Status InferSum(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedHeight(view));
  if (view.in_count() < 2 || view.in_count() % 2 != 0 || !view.has_in(0)) {
    return view.Error("expected one or more pairs (values, rows) as inputs X");
  }
  int64_t rows = 0;
  for (size_t i = 0; i < view.in_count(); i += 2) {
    const int64_t dim = i == 0 ? -1 : view.in(0).shape[1];
    TD_RETURN_IF_ERROR(NeedSparseRows(view, i, i + 1, dim));
    rows += view.in(i).shape[0];
  }
  rows = std::min(rows, view.attr<int64_t>("height"));
  outputs[0] = {DType::kF32, {rows, view.in(0).shape[1]}};
  outputs[1] = {DType::kI64, {rows}};
  return OkStatus();
}

Status InferDense(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedHeight(view));
  TD_RETURN_IF_ERROR(NeedSparseRows(view, 0, 1, -1));
  outputs[0] = {DType::kF32, {view.attr<int64_t>("height"), view.in(0).shape[1]}};
  return OkStatus();
}

constexpr AttrList Attrs() { return {{"height", int64_t{1}, "rows of the whole gradient"}}; }

}  // namespace

constinit const OpDef kSumSparseRows = {
    .type = "sum_sparse_rows",
    .doc =
        "Sum of sparse gradients. X is values, rows, values, rows, ...; values of equal rows are "
        "added in this order. Values [n,dim], Rows [n] with n = the sum of theirs, at most height.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Values"}, {"Rows"}},
    .attrs = Attrs(),
    .infer = InferSum,
    .cpu = &kSumSparseRowsCpu,
};

constinit const OpDef kSparseRowsToDense = {
    .type = "sparse_rows_to_dense",
    .doc = "Out [height,dim] = 0, with Values in the rows numbered Rows.",
    .inputs = {{"Values"}, {"Rows"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = InferDense,
    .cpu = &kSparseRowsToDenseCpu,
};

}  // namespace tandem::ops
