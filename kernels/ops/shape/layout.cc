// Definitions of transpose, concat, split and slice, which copy elements to other positions.
#include "kernels/ops/shape/layout.h"

#include <numeric>

#include "absl/strings/str_join.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

using Ints = std::vector<int64_t>;

StatusOr<int> AxisOf(const OpView& view, const Shape& shape) {
  const int64_t axis = view.attr<int64_t>("axis"), rank = shape.rank();
  if (axis < -rank || axis >= rank) {
    return view.Error(
        absl::StrFormat("attribute axis=%d must be from %d to %d", axis, -rank, rank - 1));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

StatusOr<Ints> SectionsOf(const OpView& view, int64_t n, size_t count) {
  Ints sections = view.attr<Ints>("sections");
  if (sections.empty()) {
    const auto parts = static_cast<int64_t>(count);
    const int64_t num = view.attr<int64_t>("num");
    if (num != parts || n % parts != 0) {
      return view.Error(
          absl::StrFormat("num=%d: %d elements cannot be divided into %d outputs", num, n, parts));
    }
    return Ints(count, n / parts);
  }
  int64_t total = 0;
  for (const int64_t s : sections) {
    if (s < 0 || s > n)
      return view.Error(absl::StrFormat("sections: %d is out of range, expected 0 to %d", s, n));
    total += s;
  }
  if (sections.size() != count || total != n) {
    return view.Error(absl::StrFormat(
        "sections [%s] have the sum %d, but must divide %d elements into %d outputs",
        absl::StrJoin(sections, ","), total, n, count));
  }
  return sections;
}

StatusOr<Window> WindowOf(const OpView& view, const Shape& x) {
  for (const char* name : {"axes", "starts", "ends"}) TD_RETURN_IF_ERROR(NeedInts(view, name));
  const Ints axes = view.attr<Ints>("axes"), starts = view.attr<Ints>("starts"),
             ends = view.attr<Ints>("ends");
  if (axes.size() != starts.size() || axes.size() != ends.size()) {
    return view.Error("attributes axes, starts and ends must have the same length");
  }
  Window w{x, x};
  for (int d = 0; d < x.rank(); ++d) w.begin[d] = 0;
  std::vector<bool> seen(static_cast<size_t>(x.rank()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank() : axes[i];
    if (axis < 0 || axis >= x.rank() || seen[static_cast<size_t>(axis)]) {
      return view.Error(absl::StrFormat("axes: %d is out of range or occurs twice", axes[i]));
    }
    seen[static_cast<size_t>(axis)] = true;
    const int d = static_cast<int>(axis);
    // Negative indices are relative to the end. Indices beyond the end are replaced by the end.
    const auto place = [n = x[d]](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
    };
    const int64_t begin = place(starts[i]), end = place(ends[i]);
    if (begin > end) {
      return view.Error(
          absl::StrFormat("dimension %d of %d elements: the slice ends at %d, before its start %d",
                          d, x[d], end, begin));
    }
    w.begin[d] = begin;
    w.shape[d] = end - begin;
  }
  return w;
}

StatusOr<std::vector<int>> PermutationOf(const OpView& view, int rank) {
  TD_RETURN_IF_ERROR(NeedInts(view, "axis"));
  const Ints axis = view.attr<Ints>("axis");
  std::vector<bool> seen(static_cast<size_t>(rank));
  std::vector<int> dims;
  for (const int64_t d : axis) {
    if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) break;
    seen[static_cast<size_t>(d)] = true;
    dims.push_back(static_cast<int>(d));
  }
  if (axis.size() == static_cast<size_t>(rank) && dims.size() == axis.size()) return dims;
  return view.Error(
      absl::StrFormat("attribute axis=[%s] must contain each of the %d dimensions once",
                      absl::StrJoin(axis, ","), rank));
}

namespace {

Status InferTranspose(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const auto dims, PermutationOf(view, view.in(0).shape.rank()));
  outputs[0] = view.in(0);
  for (size_t d = 0; d < dims.size(); ++d) {
    outputs[0].shape[static_cast<int>(d)] = view.in(0).shape[dims[d]];
  }
  return OkStatus();
}

void GradTranspose(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  const auto& axis = std::get<Ints>(ctx.op().attrs.find("axis")->second);
  Ints inverse(axis.size());
  for (size_t d = 0; d < axis.size(); ++d) {
    inverse[static_cast<size_t>(axis[d])] = static_cast<int64_t>(d);
  }
  ctx.Append("transpose", {{g}}, {{dx}}, {{"axis", inverse}});
}

// Returns the description of the concatenation of all inputs from position `first` on. Inputs may
// differ only in their size along the axis. The result has the sum of these sizes.
StatusOr<TensorDesc> Joined(const OpView& view, size_t first) {
  if (view.in_count() <= first || !view.has_in(first))
    return view.Error("input slot X is empty, expected at least one variable");
  TensorDesc total = view.in(first);
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, total.shape));
  for (size_t i = first + 1; i < view.in_count(); ++i) {
    if (!view.has_in(i)) return view.Error(absl::StrFormat("input %d is missing", i));
    TensorDesc x = view.in(i);
    const int64_t before = total.shape[axis];
    if (x.shape.rank() == total.shape.rank()) total.shape[axis] = x.shape[axis];
    if (x != total) {
      return view.Error(absl::StrFormat(
          "all inputs X must have the same type, and equal dimensions except dimension %d", axis));
    }
    total.shape[axis] += before;
  }
  return total;
}

Status InferConcat(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(outputs[0], Joined(view, 0));
  return OkStatus();
}

void GradConcat(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const auto& inputs = ctx.op().inputs[0];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string dx = ctx.InGrad(0, i);
    if (dx.empty()) continue;
    AttrMap attrs = ctx.op().attrs;
    attrs["index"] = static_cast<int64_t>(i);
    ctx.Append("concat_grad", {{g}, inputs}, {{dx}}, attrs);
  }
}

Status InferConcatGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const TensorDesc total, Joined(view, 1));
  if (view.in(0) != total) return view.Error("input Out@GRAD must be " + ToString(total));
  const int64_t index = view.attr<int64_t>("index");
  if (index < 0 || index >= static_cast<int64_t>(view.in_count()) - 1) {
    return view.Error(absl::StrFormat("attribute index=%d is out of range: there are %d inputs X",
                                      index, view.in_count() - 1));
  }
  outputs[0] = view.in(1 + static_cast<size_t>(index));
  return OkStatus();
}

Status InferSplit(const OpView& view, std::span<TensorDesc> outputs) {
  const Shape& x = view.in(0).shape;
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, x));
  if (outputs.empty())
    return view.Error("output slot Out is empty, expected at least one variable");
  TD_ASSIGN_OR_RETURN(const Ints sections, SectionsOf(view, x[axis], outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = view.in(0);
    outputs[i].shape[axis] = sections[i];
  }
  return OkStatus();
}

void GradSplit(GradContext& ctx) {
  std::vector<std::string> grads;
  Ints given;
  for (size_t i = 0; i < ctx.op().outputs[0].size(); ++i) {
    const std::string g = ctx.OutGrad(0, i);
    if (g.empty()) continue;
    grads.push_back(g);
    given.push_back(static_cast<int64_t>(i));
  }
  const std::string dx = grads.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  AttrMap attrs = ctx.op().attrs;
  attrs["outputs"] = static_cast<int64_t>(ctx.op().outputs[0].size());
  attrs["given"] = given;
  ctx.Append("split_grad", {{ctx.In(0)}, grads}, {{dx}}, attrs);
}

Status InferSplitGrad(const OpView& view, std::span<TensorDesc> outputs) {
  const TensorDesc& x = view.in(0);
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, x.shape));
  const int64_t count = view.attr<int64_t>("outputs");
  if (count < 1 || count > 1 << 16)
    return view.Error(absl::StrFormat("outputs=%d, expected 1 to 65536", count));
  TD_ASSIGN_OR_RETURN(const Ints sections,
                      SectionsOf(view, x.shape[axis], static_cast<size_t>(count)));
  const Ints given = view.attr<Ints>("given");
  if (given.size() != view.in_count() - 1) {
    return view.Error(absl::StrFormat("given has %d numbers for %d gradients", given.size(),
                                      view.in_count() - 1));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const bool rises = given[i] >= 0 && given[i] < count && (i == 0 || given[i] > given[i - 1]);
    if (!rises)
      return view.Error(absl::StrFormat("given: %d is out of range or out of order", given[i]));
    TensorDesc part = x;
    part.shape[axis] = sections[static_cast<size_t>(given[i])];
    if (!view.has_in(1 + i) || view.in(1 + i) != part) {
      return view.Error(absl::StrFormat("gradient %d must be %s", given[i], ToString(part)));
    }
  }
  outputs[0] = x;
  return OkStatus();
}

Status InferSlice(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(view, view.in(0).shape));
  outputs[0] = {view.in(0).dtype, w.shape};
  return OkStatus();
}

void GradSlice(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("slice_grad", {{ctx.In(0)}, {g}}, {{dx}}, ctx.op().attrs);
}

Status InferSliceGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(view, view.in(0).shape));
  const TensorDesc want{view.in(0).dtype, w.shape};
  if (view.in(1) != want) return view.Error("input Out@GRAD must be " + ToString(want));
  outputs[0] = view.in(0);
  return OkStatus();
}

constexpr AttrDef Axis() {
  return {"axis", int64_t{0}, "dimension; negative ones count from the last"};
}

constexpr AttrList SplitAttrs() {
  return {Axis(),
          {"num", int64_t{0}, "number of equal parts, where there are no sections"},
          {"sections", std::span<const int64_t>(), "elements of each part"}};
}

constexpr AttrList SliceAttrs() {
  return {{"axes", {}, "dimensions from which a part is taken"},
          {"starts", {}, "first element of each; negative ones count from the end"},
          {"ends", {}, "the element after the last; a larger number is the end"}};
}

}  // namespace

constinit const OpDef kTranspose = {
    .type = "transpose",
    .doc = "Out with the dimensions of X in another order.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"axis", {}, "dimension i of Out is dimension axis[i] of X"}},
    .infer = InferTranspose,
    .grad = GradTranspose,
    .cpu = &kTransposeCpu,
};

constinit const OpDef kConcat = {
    .type = "concat",
    .doc = "All X one after the other along a dimension.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out"}},
    .attrs = {Axis()},
    .infer = InferConcat,
    .grad = GradConcat,
    .cpu = &kConcatCpu,
};

constinit const OpDef kConcatGrad = {
    .type = "concat_grad",
    .doc = "The part of Out@GRAD that belongs to X[index]. Of X the shapes alone are used.",
    .inputs = {{"Out@GRAD"}, {"X", Arity::kMany, true}},
    .outputs = {{"X@GRAD"}},
    .attrs = {Axis(), {"index", int64_t{0}, "which X"}},
    .infer = InferConcatGrad,
    .cpu = &kConcatGradCpu,
};

constinit const OpDef kSplit = {
    .type = "split",
    .doc = "X cut into parts along a dimension.",
    .inputs = {{"X"}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = SplitAttrs(),
    .infer = InferSplit,
    .grad = GradSplit,
    .cpu = &kSplitCpu,
};

constinit const OpDef kSplitGrad = {
    .type = "split_grad",
    .doc =
        "Gradient of split: zeros where that of an output is not given. Of X the shape alone is "
        "used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD", Arity::kMany}},
    .outputs = {{"X@GRAD"}},
    .attrs = SplitAttrs().With(
        {{"outputs", int64_t{1}, "number of split's outputs"},
         {"given", std::span<const int64_t>(), "which of them have a gradient, ascending"}}),
    .infer = InferSplitGrad,
    .cpu = &kSplitGradCpu,
};

constinit const OpDef kSlice = {
    .type = "slice",
    .doc = "A window of X.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = SliceAttrs(),
    .infer = InferSlice,
    .grad = GradSlice,
    .cpu = &kSliceCpu,
};

constinit const OpDef kSliceGrad = {
    .type = "slice_grad",
    .doc = "Out@GRAD in its window, zeros around. Of X the shape alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = SliceAttrs(),
    .infer = InferSliceGrad,
    .cpu = &kSliceGradCpu,
};

}  // namespace tandem::ops
