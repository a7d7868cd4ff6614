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

StatusOr<Ints> SizesOf(const Node& n, size_t input) {
  const KnownValue* known = n.has(input) ? n.graph().known().Get(n.value(input)) : nullptr;
  if (known != nullptr) {
    const Shape shape = known->tensor.shape();
    Ints sizes(shape.dims().begin(), shape.dims().end());
    if (known->batch >= 0) sizes[static_cast<size_t>(known->batch)] = kBatch + 1;
    return sizes;
  }
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
  return n.graph().known().AddTable(
      n.out(), {.whole = true, .shape = {}, .batch = -1, .numbers = {{*product, 0, 0}}});
}

Status Flatten(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  int64_t axis = n.attributes().Int("axis", 1);
  if (axis != shape.rank()) {
    TD_ASSIGN_OR_RETURN(axis, NonNegativeAxis(axis, shape.rank()));
  }
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
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints sizes, ReshapeSizes(n.graph().program(), x, dims, allow_zero));
  return n.Reshape(x, sizes);
}

Status Squeeze(const Node& n) {
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
  Slots inputs(1);
  for (size_t i = 0; i < n.inputs(); ++i) {
    TD_ASSIGN_OR_RETURN(inputs[0].emplace_back(), n.in(i));
  }
  return n.Done("concat", std::move(inputs), {{"axis", n.attributes().Int("axis", 0)}});
}

struct Cuts {
  Ints axes, starts, ends, steps;
};

StatusOr<Cuts> CutsOf(const Node& n) {
  Cuts cuts{n.attributes().Ints("axes", {}),
            n.attributes().Ints("starts", {}),
            n.attributes().Ints("ends", {}),
            {}};
  if (n.opset() >= 10) {
    TD_ASSIGN_OR_RETURN(cuts.starts, n.ConstantInts(1));
    TD_ASSIGN_OR_RETURN(cuts.ends, n.ConstantInts(2));
    if (n.has(3)) {
      TD_ASSIGN_OR_RETURN(cuts.axes, n.ConstantInts(3));
    }
    if (n.has(4)) {
      TD_ASSIGN_OR_RETURN(cuts.steps, n.ConstantInts(4));
    }
  }
  for (size_t i = 0; cuts.axes.size() < cuts.starts.size(); ++i) {
    cuts.axes.push_back(static_cast<int64_t>(i));
  }
  cuts.steps.resize(cuts.starts.size(), 1);
  if (cuts.axes.size() == cuts.starts.size() && cuts.axes.size() == cuts.ends.size()) return cuts;
  return InvalidArgument("axes, starts and ends must have the same length [TD2108]");
}

// Selects every step-th element of dimension `axis` of `x`, from element `start` to the end. The
// dimension is split into groups of `step` elements.
StatusOr<std::string> Strided(const Node& n, const std::string& x, int64_t axis, int64_t start,
                              int64_t step) {
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  int64_t& size = sizes[static_cast<size_t>(axis)];
  if (step < 1 || IsBatch(size) || size % step != 0 || start < 0 || start >= step) {
    return Unimplemented(
        "a slice of %d elements with the step %d is not supported, expected a step that divides "
        "the "
        "size of the dimension and a slice to its end [TD7015]",
        IsBatch(size) ? 0 : size, step);
  }
  size /= step;
  sizes.insert(sizes.begin() + axis + 1, step);
  TD_ASSIGN_OR_RETURN(std::string groups, n.TempReshape(x, sizes));
  TD_ASSIGN_OR_RETURN(
      groups,
      n.Temp("slice", {{groups}},
             {{"axes", Ints{axis + 1}}, {"starts", Ints{start}}, {"ends", Ints{start + 1}}}));
  sizes.erase(sizes.begin() + axis + 1);
  return n.TempReshape(groups, sizes);
}

Status Slice(const Node& n) {
  TD_ASSIGN_OR_RETURN(Cuts cuts, CutsOf(n));
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  Cuts left;
  for (size_t i = 0; i < cuts.axes.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(cuts.axes[i], shape.rank()));
    if (cuts.steps[i] != 1 && cuts.ends[i] >= shape[static_cast<int>(axis)]) {
      TD_ASSIGN_OR_RETURN(x, Strided(n, x, axis, cuts.starts[i], cuts.steps[i]));
      continue;
    }
    if (cuts.steps[i] != 1)
      return Unimplemented(
          "a slice with a step that does not reach the end is not supported [TD7015]");
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

constexpr ReadRow kReadShapeRows[] = {
    {"Concat", Concat}, {"Flatten", Flatten}, {"Reshape", Reshape}, {"Shape", ShapeOf},
    {"Size", SizeOf},   {"Slice", Slice},     {"Squeeze", Squeeze}, {"Unsqueeze", Unsqueeze},
};

}  // namespace

std::span<const ReadRow> ShapeReaders() { return kReadShapeRows; }

}  // namespace tandem::onnx
