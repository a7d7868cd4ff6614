#include "kernels/ops/shape/copy_parts.h"

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/shape/layout.h"

namespace tandem::ops {
namespace {

// A tensor `part` that is a part of tensor `whole`. The part begins at index `begin` of dimension
// `axis`.
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

}  // namespace

StatusOr<CopyParts> TransposeParts(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const auto dims, PermutationOf(view, view.in(0).shape.rank()));
  const Strides strides = RowMajor(view.in(0).shape);
  Strides from{};
  for (size_t d = 0; d < dims.size(); ++d) from[d] = strides[static_cast<size_t>(dims[d])];
  const Shape& out = view.out(0).shape;
  const StridedCopy copy(out, from, RowMajor(out), SizeOf(view.in(0).dtype));
  return CopyParts{{{copy, 0, 0, 0, 0}}, 0};
}

StatusOr<CopyParts> ConcatParts(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  CopyParts result;
  int64_t begin = 0;
  for (size_t i = 0; i < view.in_count(); ++i) {
    const Piece piece{view.out(0), view.in(i), axis, begin};
    result.parts.push_back({piece.In(), i, 0, 0, piece.offset()});
    begin += view.in(i).shape[axis];
  }
  return result;
}

StatusOr<CopyParts> ConcatGradParts(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  const auto index = static_cast<size_t>(view.attr<int64_t>("index"));
  int64_t begin = 0;
  for (size_t i = 0; i < index; ++i) begin += view.in(1 + i).shape[axis];
  const Piece piece{view.in(0), view.in(1 + index), axis, begin};
  return CopyParts{{{piece.Out(), 0, piece.offset(), 0, 0}}, 0};
}

StatusOr<CopyParts> SplitParts(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, view.in(0).shape));
  CopyParts result;
  int64_t begin = 0;
  for (size_t i = 0; i < view.out_count(); ++i) {
    const Piece piece{view.in(0), view.out(i), axis, begin};
    result.parts.push_back({piece.Out(), 0, piece.offset(), i, 0});
    begin += view.out(i).shape[axis];
  }
  return result;
}

StatusOr<CopyParts> SplitGradParts(const OpView& view) {
  const TensorDesc& x = view.in(0);
  TD_ASSIGN_OR_RETURN(const int axis, AxisOf(view, x.shape));
  const auto given = view.attr<std::vector<int64_t>>("given");
  const auto count = static_cast<size_t>(view.attr<int64_t>("outputs"));
  TD_ASSIGN_OR_RETURN(const auto sections, SectionsOf(view, x.shape[axis], count));
  CopyParts result{{}, given.size() == count ? 0 : x.bytes()};
  int64_t begin = 0;
  for (size_t i = 0, next = 0; i < count && next < given.size(); begin += sections[i++]) {
    if (given[next] != static_cast<int64_t>(i)) continue;
    ++next;
    const Piece piece{x, view.in(next), axis, begin};
    result.parts.push_back({piece.In(), next, 0, 0, piece.offset()});
  }
  return result;
}

namespace {

StatusOr<CopyParts> SliceEither(const OpView& view, bool grad) {
  const TensorDesc& x = view.in(0);
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(view, x.shape));
  const Strides whole = RowMajor(x.shape), part = RowMajor(w.shape);
  int64_t begin = 0;
  for (int d = 0; d < x.shape.rank(); ++d) begin += w.begin[d] * whole[static_cast<size_t>(d)];
  const size_t size = SizeOf(x.dtype), offset = static_cast<size_t>(begin) * size;
  if (grad) {
    const StridedCopy copy(w.shape, part, whole, size);
    return CopyParts{{{copy, 1, 0, 0, offset}}, x.bytes()};
  }
  const StridedCopy copy(w.shape, whole, part, size);
  return CopyParts{{{copy, 0, offset, 0, 0}}, 0};
}

}  // namespace

StatusOr<CopyParts> SliceParts(const OpView& view) { return SliceEither(view, false); }
StatusOr<CopyParts> SliceGradParts(const OpView& view) { return SliceEither(view, true); }

namespace {

// Returns the strides of a layout along the dimensions (n, c / block, h w, c % block).
Strides StridesOf(ImageLayout layout, const Shape& x, int64_t block) {
  const int64_t plane = x[2] * x[3], image = x[1] * plane;
  switch (layout) {
    case ImageLayout::kBlocked:
      return {image, block * plane, block, 1};
    case ImageLayout::kLast:
      return {image, block, x[1], 1};
    case ImageLayout::kPlain:
      break;
  }
  return {image, block * plane, 1, plane};
}

}  // namespace

StatusOr<CopyParts> ReorderParts(const OpView& view) {
  const Shape& x = view.in(0).shape;
  TD_ASSIGN_OR_RETURN(const ImageLayout from, LayoutOf(view, "from", x));
  TD_ASSIGN_OR_RETURN(const ImageLayout to, LayoutOf(view, "to", x));
  const int64_t block = x[1] % kLayoutBlock == 0 ? kLayoutBlock : 1;
  const StridedCopy copy({x[0], x[1] / block, x[2] * x[3], block}, StridesOf(from, x, block),
                         StridesOf(to, x, block), SizeOf(view.in(0).dtype));
  return CopyParts{{{copy, 0, 0, 0, 0}}, 0};
}

}  // namespace tandem::ops
