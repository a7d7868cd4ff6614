#include <cstring>

#include "kernels/ops/layout.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/strided_copy.h"

namespace tandem {
namespace {

// One copy: a window of input `in` into a window of output `out`, offsets in bytes.
struct Part {
  StridedCopy copy;
  size_t in, from, out, to;
};

struct State {
  std::vector<Part> parts;
  size_t zeros = 0;  // bytes of output 0 that are cleared first
  int threads;
};

Status Run(State& s, const KernelArgs& args) {
  if (s.zeros > 0) std::memset(args.out[0], 0, s.zeros);
  for (const Part& p : s.parts) {
    p.copy.Run(static_cast<const std::byte*>(args.in[p.in]) + p.from,
               static_cast<std::byte*>(args.out[p.out]) + p.to, s.threads);
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareTranspose(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const auto dims, PermutationOf(view, view.in(0).shape.rank()));
  const Strides strides = RowMajor(view.in(0).shape);
  Strides from{};
  for (size_t d = 0; d < dims.size(); ++d) from[d] = strides[static_cast<size_t>(dims[d])];
  const Shape& out = view.out(0).shape;
  const StridedCopy copy(out, from, RowMajor(out), SizeOf(view.in(0).dtype));
  return MakeKernel<State, Run>({{{copy, 0, 0, 0, 0}}, 0, ctx.threads});
}

// A part of a tensor `whole` that is `part`, `begin` elements along `axis` behind its start.
struct Piece {
  const TensorDesc& whole;
  const TensorDesc& part;
  int axis;
  int64_t begin;

  size_t offset() const {
    const int64_t row = whole.shape.numel(axis + 1, whole.shape.rank());
    return static_cast<size_t>(begin * row) * SizeOf(whole.dtype);
  }
  StridedCopy In() const { return Copy(RowMajor(part.shape), RowMajor(whole.shape)); }
  StridedCopy Out() const { return Copy(RowMajor(whole.shape), RowMajor(part.shape)); }
  StridedCopy Copy(const Strides& from, const Strides& to) const {
    return {part.shape, from, to, SizeOf(part.dtype)};
  }
};

StatusOr<Kernel> PrepareConcat(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  State state{{}, 0, ctx.threads};
  int64_t begin = 0;
  for (size_t i = 0; i < view.in_count(); ++i) {
    const Piece piece{view.out(0), view.in(i), axis, begin};
    state.parts.push_back({piece.In(), i, 0, 0, piece.offset()});
    begin += view.in(i).shape[axis];
  }
  return MakeKernel<State, Run>(std::move(state));
}

StatusOr<Kernel> PrepareConcatGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  const auto index = static_cast<size_t>(view.attr<int64_t>("index"));
  int64_t begin = 0;
  for (size_t i = 0; i < index; ++i) begin += view.in(1 + i).shape[axis];
  const Piece piece{view.in(0), view.in(1 + index), axis, begin};
  return MakeKernel<State, Run>({{{piece.Out(), 0, piece.offset(), 0, 0}}, 0, ctx.threads});
}

StatusOr<Kernel> PrepareSplit(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  State state{{}, 0, ctx.threads};
  int64_t begin = 0;
  for (size_t i = 0; i < view.out_count(); ++i) {
    const Piece piece{view.in(0), view.out(i), axis, begin};
    state.parts.push_back({piece.Out(), 0, piece.offset(), i, 0});
    begin += view.out(i).shape[axis];
  }
  return MakeKernel<State, Run>(std::move(state));
}

StatusOr<Kernel> PrepareSplitGrad(const OpView& view, const PrepareContext& ctx) {
  const TensorDesc& x = view.in(0);
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, x.shape));
  const auto given = view.attr<std::vector<int64_t>>("given");
  const auto count = static_cast<size_t>(view.attr<int64_t>("outputs"));
  TD_ASSIGN_OR_RETURN(const auto sections, SectionsOf(view, x.shape[axis], count));
  State state{{}, given.size() == count ? 0 : x.bytes(), ctx.threads};
  int64_t begin = 0;
  for (size_t i = 0, next = 0; i < count && next < given.size(); begin += sections[i++]) {
    if (given[next] != static_cast<int64_t>(i)) continue;
    ++next;
    const Piece piece{x, view.in(next), axis, begin};
    state.parts.push_back({piece.In(), next, 0, 0, piece.offset()});
  }
  return MakeKernel<State, Run>(std::move(state));
}

template <bool grad>
StatusOr<Kernel> PrepareSlice(const OpView& view, const PrepareContext& ctx) {
  const TensorDesc& x = view.in(0);
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(view, x.shape));
  const Strides whole = RowMajor(x.shape), part = RowMajor(w.shape);
  int64_t begin = 0;
  for (int d = 0; d < x.shape.rank(); ++d) begin += w.begin[d] * whole[static_cast<size_t>(d)];
  const size_t size = SizeOf(x.dtype), offset = static_cast<size_t>(begin) * size;
  if (grad) {
    const StridedCopy copy(w.shape, part, whole, size);
    return MakeKernel<State, Run>({{{copy, 1, 0, 0, offset}}, x.bytes(), ctx.threads});
  }
  const StridedCopy copy(w.shape, whole, part, size);
  return MakeKernel<State, Run>({{{copy, 0, offset, 0, 0}}, 0, ctx.threads});
}

}  // namespace

std::vector<KernelImpl> TransposeCpu() { return {{"strided", PrepareTranspose}}; }
std::vector<KernelImpl> ConcatCpu() { return {{"strided", PrepareConcat}}; }
std::vector<KernelImpl> ConcatGradCpu() { return {{"strided", PrepareConcatGrad}}; }
std::vector<KernelImpl> SplitCpu() { return {{"strided", PrepareSplit}}; }
std::vector<KernelImpl> SplitGradCpu() { return {{"strided", PrepareSplitGrad}}; }
std::vector<KernelImpl> SliceCpu() { return {{"strided", PrepareSlice<false>}}; }
std::vector<KernelImpl> SliceGradCpu() { return {{"strided", PrepareSlice<true>}}; }

}  // namespace tandem
