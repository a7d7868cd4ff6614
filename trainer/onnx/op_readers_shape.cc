// Reads nodes that change shapes, and nodes that compute shapes. Computed shapes are lists of
// integers that are known while the model is read. A size that depends on the batch is kBatch + k.
#include <algorithm>

#include "onnx/onnx.pb.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

constexpr size_t kPartsMax = 64;  // maximum number of ranges of elements that a Gather selects

// Sets the result of the node to the list `known`, because the node only adds or removes dimensions
// of size 1. Such a change leaves the numbers of a list unchanged.
Status PropagateConstant(const Node& n, const Ints& known) {
  n.attributes().Ints("axes", {});
  return n.Know(known);
}

StatusOr<Ints> SizesOf(const Node& n, size_t input) {
  const Tensor* known = n.has(input) ? n.graph().known().Find(n.value(input)) : nullptr;
  if (known != nullptr) return Ints(known->shape().dims().begin(), known->shape().dims().end());
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(input));
  return n.graph().program().Sizes(x);
}

Status ShapeOf(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints sizes, SizesOf(n, 0));
  const auto rank = static_cast<int64_t>(sizes.size());
  const auto place = [rank](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = place(n.attributes().Int("start", 0)),
                end = place(n.attributes().Int("end", rank));
  if (begin > end) return n.Know(Ints{});
  return n.Know(Ints(sizes.begin() + begin, sizes.begin() + end));
}

Status SizeOf(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints sizes, SizesOf(n, 0));
  std::optional<int64_t> product = 1;
  for (const int64_t size : sizes) {
    product = ComputeSize('*', *product, size);
    if (!product)
      return Unimplemented(
          "the result depends on the square of the batch size, which is not supported [TD1214]");
  }
  return n.Know(Ints{*product});
}

Status Flatten(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const int64_t axis,
                      NonNegativeAxis(n.attributes().Int("axis", 1), shape.rank()));
  if (axis == 0)
    return Unimplemented(
        "axis = 0 would flatten all samples into one row, which is not supported [TD1214]");
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  const bool after = batch && batch->axis >= axis;
  const int64_t columns = shape.numel(static_cast<int>(axis), shape.rank());
  const int64_t rows = shape.numel(0, static_cast<int>(axis));
  TD_ASSIGN_OR_RETURN(const Ints sizes, FillSizes(n.graph().program(), x,
                                                  after ? Ints{rows, -1} : Ints{-1, columns}));
  return n.Reshape(x, sizes);
}

Status Reshape(const Node& n) {
  const bool allow_zero = n.attributes().Int("allowzero", 0) != 0;
  TD_ASSIGN_OR_RETURN(const Ints dims, n.ConstantSizes(1));
  if (const auto known = n.Known(0); known && dims.size() <= 1) return n.Know(*known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints sizes, ReshapeSizes(n.graph().program(), x, dims, allow_zero));
  return n.Reshape(x, sizes);
}

Status Squeeze(const Node& n) {
  if (const auto known = n.Known(0)) return PropagateConstant(n, *known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const Ints axes, n.Axes(12, shape.rank()));
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(x));
  Ints left;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t size = sizes[static_cast<size_t>(axis)];
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (axes.empty() ? size != 1 : !named) left.push_back(size);
    if (named && size != 1) {
      return InvalidArgument("dimension %d of shape %s must be 1 [TD2108]", axis, ToString(shape));
    }
  }
  return n.Reshape(x, left);
}

Status Unsqueeze(const Node& n) {
  if (const auto known = n.Known(0)) return PropagateConstant(n, *known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  size_t more = n.attributes().Ints("axes", {}).size();
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(const Ints given, n.ConstantInts(1));
    more = given.size();
  }
  if (more > Shape::kRankMax)
    return InvalidArgument("the node has %d axes, which is more than a tensor can have [TD2108]",
                           more);
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(Ints axes, n.Axes(12, static_cast<int>(sizes.size() + more)));
  std::sort(axes.begin(), axes.end());
  for (const int64_t axis : axes) {
    if (axis > static_cast<int64_t>(sizes.size()))
      return InvalidArgument("axis %d does not exist [TD2108]", axis);
    sizes.insert(sizes.begin() + axis, 1);
  }
  return n.Reshape(x, sizes);
}

Status Concat(const Node& n) {
  Ints joined;
  bool known = n.inputs() > 0;
  for (size_t i = 0; known && i < n.inputs(); ++i) {
    const auto list = n.Known(i);
    known = list.has_value();
    if (known) joined.insert(joined.end(), list->begin(), list->end());
  }
  if (known) {
    TD_RETURN_IF_ERROR(n.attributes().Only("axis", 0));
    return n.Know(joined);
  }
  Slots inputs(1);
  for (size_t i = 0; i < n.inputs(); ++i) {
    TD_ASSIGN_OR_RETURN(inputs[0].emplace_back(), n.in(i));
  }
  return n.Done("concat", std::move(inputs), {{"axis", n.attributes().Int("axis", 0)}});
}

struct Cuts {
  Ints axes, starts, ends;
};

StatusOr<Cuts> CutsOf(const Node& n) {
  Cuts cuts{n.attributes().Ints("axes", {}), n.attributes().Ints("starts", {}),
            n.attributes().Ints("ends", {})};
  if (n.opset() >= 10) {
    TD_ASSIGN_OR_RETURN(cuts.starts, n.ConstantInts(1));
    TD_ASSIGN_OR_RETURN(cuts.ends, n.ConstantInts(2));
    if (n.has(3)) {
      TD_ASSIGN_OR_RETURN(cuts.axes, n.ConstantInts(3));
    }
    if (n.has(4)) {
      TD_ASSIGN_OR_RETURN(const Ints steps, n.ConstantInts(4));
      const bool ones = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
      if (!ones) return Unimplemented("slices with a step other than 1 are not supported [TD7015]");
    }
  }
  for (size_t i = 0; cuts.axes.size() < cuts.starts.size(); ++i) {
    cuts.axes.push_back(static_cast<int64_t>(i));
  }
  if (cuts.axes.size() == cuts.starts.size() && cuts.axes.size() == cuts.ends.size()) return cuts;
  return InvalidArgument("axes, starts and ends must have the same length [TD2108]");
}

// Slices the known list of sizes `list`.
Status KnownSlice(const Node& n, const Ints& list, const Cuts& cuts) {
  if (cuts.axes.size() != 1 || (cuts.axes[0] != 0 && cuts.axes[0] != -1)) {
    return InvalidArgument(
        "the sliced list has one dimension, but input axes names another dimension [TD2108]");
  }
  const auto size = static_cast<int64_t>(list.size());
  const auto place = [size](int64_t at) {
    return std::clamp<int64_t>(at < 0 && at >= -size ? at + size : at, 0, size);
  };
  const int64_t begin = place(cuts.starts[0]), end = std::max(begin, place(cuts.ends[0]));
  return n.Know(Ints(list.begin() + begin, list.begin() + end));
}

Status Slice(const Node& n) {
  TD_ASSIGN_OR_RETURN(Cuts cuts, CutsOf(n));
  if (const auto known = n.Known(0)) return KnownSlice(n, *known, cuts);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  Cuts left;
  for (size_t i = 0; i < cuts.axes.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(cuts.axes[i], shape.rank()));
    if (batch && axis == batch->axis) {
      // A slice of the whole batch dimension has no effect.
      if (cuts.starts[i] == 0 && cuts.ends[i] >= INT32_MAX) continue;
      return Unimplemented("a slice of the batch is not supported [TD1214]");
    }
    left.axes.push_back(axis);
    // In ONNX an index below -size means the beginning of the dimension. The slice operator would
    // count such an index from the end of the dimension.
    left.starts.push_back(std::max(cuts.starts[i], -shape[static_cast<int>(axis)]));
    left.ends.push_back(std::max(cuts.ends[i], -shape[static_cast<int>(axis)]));
  }
  if (left.axes.empty()) return n.Is(x);
  return n.Done("slice", {{x}},
                {{"axes", left.axes}, {"starts", left.starts}, {"ends", left.ends}});
}

// Selects the elements `at` of the known list `list`.
Status KnownElements(const Node& n, const Ints& list, const Ints& at) {
  TD_RETURN_IF_ERROR(n.attributes().Only("axis", 0));
  Ints elements;
  for (const int64_t i : at) {
    TD_ASSIGN_OR_RETURN(const int64_t index, NonNegativeAxis(i, static_cast<int>(list.size())));
    elements.push_back(list[static_cast<size_t>(index)]);
  }
  return n.Know(elements);
}

// Selects the elements `at` of `x` along the axis of the node. `one`: `at` is a single number, and
// the result lacks the dimension.
Status Choose(const Node& n, const std::string& x, const Ints& at, bool one) {
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(n.attributes().Int("axis", 0),
                                                          static_cast<int>(sizes.size())));
  int64_t& size = sizes[static_cast<size_t>(axis)];
  if (IsBatch(size))
    return Unimplemented("samples of the batch cannot be selected by index [TD1214]");
  Slots parts(1);
  for (size_t i = 0; i < at.size();) {
    const int64_t begin = at[i] < 0 ? at[i] + size : at[i];
    int64_t end = begin;
    for (; i < at.size() && (at[i] < 0 ? at[i] + size : at[i]) == end; ++i) ++end;
    if (begin < 0 || end > size)
      return InvalidArgument("element %d does not exist: the dimension has %d elements [TD2108]",
                             at[i - 1], size);
    if (parts[0].size() == kPartsMax)
      return Unimplemented(
          "the selected elements form more than %d ranges, which is not supported [TD7015]",
          kPartsMax);
    TD_ASSIGN_OR_RETURN(
        parts[0].emplace_back(),
        n.Temp("slice", {{x}},
               {{"axes", Ints{axis}}, {"starts", Ints{begin}}, {"ends", Ints{end}}}));
  }
  if (parts[0].empty()) return Unimplemented("the node selects no elements [TD7015]");
  if (one) {
    sizes.erase(sizes.begin() + axis);
    return n.Reshape(parts[0][0], sizes);
  }
  return parts[0].size() == 1 ? n.Is(parts[0][0]) : n.Done("concat", parts, {{"axis", axis}});
}

Status Gather(const Node& n) {
  if (!n.has(0) || !n.has(1))
    return InvalidArgument("an input of the node is missing, expected 2 inputs [TD2108]");
  const auto list = n.Known(0), at = n.Known(1);
  if (list && at) return KnownElements(n, *list, *at);
  if (at) {
    const int rank = n.graph().known().Find(n.value(1))->shape().rank();
    if (rank > 1)
      return Unimplemented(
          "constant indices with %d dimensions are not supported, expected at most 1 [TD7015]",
          rank);
    TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
    return Choose(n, x, *at, rank == 0);
  }
  const Tensor* table = n.graph().known().Find(n.value(0));
  const bool lookup = table != nullptr && table->shape().rank() == 2 &&
                      n.attributes().Int("axis", 0) == 0 &&
                      n.graph().known().Find(n.value(1)) == nullptr;
  if (!lookup)
    return Unimplemented(
        "a Gather with computed indices is supported only from a constant table of two dimensions "
        "[TD7015]");
  TD_ASSIGN_OR_RETURN(const std::string w, n.in(0));
  TD_ASSIGN_OR_RETURN(std::string ids, n.in(1));
  if (n.graph().program().Desc(ids).dtype != DType::kI64) {
    TD_ASSIGN_OR_RETURN(ids, n.Temp("cast", {{ids}}, {{"out_dtype", std::string("i64")}}));
  }
  return n.Done("lookup_table", {{ids}, {w}}, {{"squeeze_last", false}});
}

constexpr ReadRow kReadShapeRows[] = {
    {"Concat", Concat},   {"Flatten", Flatten}, {"Gather", Gather},
    {"Reshape", Reshape}, {"Shape", ShapeOf},   {"Size", SizeOf},
    {"Slice", Slice},     {"Squeeze", Squeeze}, {"Unsqueeze", Unsqueeze},
};

}  // namespace

std::span<const ReadRow> ShapeReaders() { return kReadShapeRows; }

}  // namespace tandem::onnx
