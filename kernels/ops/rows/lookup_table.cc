#include "kernels/ops/rows/lookup_table.h"

#include <algorithm>

#include "common/tables/table_rules.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<LookupShape> LookupShapeOf(const OpView& view) {
  const bool sparse = view.attr<bool>("is_sparse");
  if (view.in(0).dtype != DType::kI64) return view.Error("input Ids must have element type i64");
  TD_RETURN_IF_ERROR(NeedF32(view, 0));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "W", 2));
  const Shape &ids = view.in(0).shape, &w = view.in(1).shape;
  LookupShape s{.count = ids.numel(), .rows = w[0], .dim = w[1], .out = {}};
  s.padding_idx = view.attr<int64_t>("padding_idx");
  if (s.padding_idx < -1 || s.padding_idx >= s.rows) {
    return view.Error(absl::StrFormat(
        "padding_idx=%d is neither -1 (none) nor one of the %d rows of W", s.padding_idx, s.rows));
  }
  const bool distributed = view.attr<bool>("is_distributed");
  if (distributed && !sparse)
    return view.Error("attribute is_distributed has no effect without is_sparse");
  const auto rules = view.attr<std::string>("table_rules");
  if (!rules.empty() && !distributed)
    return view.Error("attribute table_rules has no effect without is_distributed");
  const auto parsed = ParseTableRules(rules);
  if (!parsed.ok()) return view.Error(std::string(parsed.status().message()));
  const bool counted = parsed->counts() > 0;
  if (counted == view.attr<std::string>("click").empty()) {
    return view.Error(
        counted ? "accessor=ctr needs click: which data of the batch says what was clicked"
                : "click goes with table_rules accessor=ctr alone");
  }
  const int64_t rows_max = int64_t{1} << (distributed ? 62 : 32);
  if (sparse && (s.rows >= rows_max || s.count >= int64_t{1} << 32)) {
    return view.Error("is_sparse: there must be fewer than 2^32 ids and rows");
  }
  std::vector<int64_t> dims(ids.dims().begin(), ids.dims().end());
  if (view.attr<bool>("squeeze_last") && dims.size() > 1 && dims.back() == 1) dims.pop_back();
  dims.push_back(s.dim);
  if (dims.size() > size_t{Shape::kRankMax}) {
    return view.Error(
        absl::StrFormat("Ids has too many dimensions, expected at most %d", Shape::kRankMax - 1));
  }
  s.out = Shape(dims);
  return s;
}

Status CheckIds(std::span<const int64_t> ids, int64_t rows) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < rows) continue;
    return InvalidArgument("id %d (element %d of Ids) is out of range, expected 0 to %d [TD2004]",
                           ids[i], i, rows - 1);
  }
  return OkStatus();
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  outputs[0] = {DType::kF32, s.out};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const auto sparse = ctx.op().attrs.find("is_sparse");
  if (sparse != ctx.op().attrs.end() && std::get<bool>(sparse->second)) {
    const SparseGradNames dw = ctx.InGradSparse(1);
    if (dw.values.empty()) return;
    ctx.Append("lookup_table_sparse_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}},
               {{dw.values}, {dw.rows}}, ctx.op().attrs);
    return;
  }
  const std::string dw = ctx.InGrad(1);
  if (dw.empty()) return;
  ctx.Append("lookup_table_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dw}}, ctx.op().attrs);
}

StatusOr<LookupShape> GradShapeOf(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  if (view.in(2).shape == s.out) return s;
  return view.Error("input Out@GRAD must have the shape " + ToString(s.out));
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(GradShapeOf(view).status());
  outputs[0] = view.in(1);
  return OkStatus();
}

Status InferSparseGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, GradShapeOf(view));
  outputs[0] = {DType::kF32, {std::min(s.count, s.rows), s.dim}};
  outputs[1] = {DType::kI64, {std::min(s.count, s.rows)}};
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {
      {"is_distributed", false,
       "W lies on pservers alone, which make a row when it is first touched; trainers have the "
       "rows "
       "of the batch. Other modes keep W whole"},
      {"is_sparse", false, "the gradient of W is sparse rows instead of a whole table"},
      {"padding_idx", int64_t{-1}, "this id gives zeros and has no gradient; -1: none"},
      {"table_rules", std::string_view(),
       "is_distributed: when pservers make and remove rows (common/tables/table_rules.h)"},
      {"click", std::string_view(),
       "table_rules accessor=ctr: the data variable, a number for each record of the batch, that "
       "is 1 "
       "where it was clicked, else 0"},
      {"squeeze_last", true, "a last dimension of 1 of Ids (rank 2 or more) is left out of Out"}};
}

}  // namespace

constinit const OpDef kLookupTable = {
    .type = "lookup_table",
    .doc =
        "Out[i, :] = W[Ids[i], :] for every i64 id: [.., dim] for Ids [..] or [.., 1] and W "
        "[rows, dim]. An id outside [0, rows) is an error.",
    .inputs = {{"Ids"}, {"W"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kLookupTableCpu,
};

constinit const OpDef kLookupTableGrad = {
    .type = "lookup_table_grad",
    .doc =
        "W@GRAD[r, :] = sum of Out@GRAD[i, :] over the i with Ids[i] = r, in order of i. Of W the "
        "shape alone is used.",
    .inputs = {{"Ids"}, {"W", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"W@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kLookupTableGradCpu,
};

constinit const OpDef kLookupTableSparseGrad = {
    .type = "lookup_table_sparse_grad",
    .doc =
        "The rows of lookup_table_grad's W@GRAD that Ids names, as sparse rows: W@GRAD [n,dim], "
        "Rows [n], n = the number of ids, at most that of W's rows. Of W the shape alone is used.",
    .inputs = {{"Ids"}, {"W", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"W@GRAD"}, {"Rows"}},
    .attrs = Attrs(),
    .infer = InferSparseGrad,
    .cpu = &kLookupTableSparseGradCpu,
};

}  // namespace tandem::ops
