// Nodes that change shapes, and those that compute shapes: lists of whole numbers that are known
// while a model is read, with kOnnxBatch for the batch.
#include <algorithm>

#include "trainer/onnx/op_readers.h"

namespace tandem {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

// A list stays the list that it is, whatever dimensions of size 1 it has.
Status KnowAgain(const OnnxNode& n, const Ints& known) {
  n.Ints("axes", {});
  return n.Know(known);
}

Status ShapeOf(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape& shape = n.graph().Desc(x).shape;
  Ints dims(shape.dims().begin(), shape.dims().end());
  TD_RETURN_IF_ERROR(n.graph().CheckSizes(x));
  if (n.graph().HasBatch(x)) {
    dims[0] = kOnnxBatch;
  } else if (!dims.empty() && n.graph().DependsOnBatch(x, 0)) {
    return Unimplemented("the first dimension of \"%s\" is not the batch, but depends on it", x);
  }
  return n.Know(dims);
}

// To `dims`, of which the first is the batch.
Status ReshapeTo(const OnnxNode& n, const std::string& x, Ints dims) {
  TD_RETURN_IF_ERROR(n.graph().CheckSizes(x));
  if (!dims.empty()) dims[0] = -1;
  return n.Done("reshape", {{x}}, {{"shape", dims}});
}

Status Flatten(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", 1), shape.rank()));
  if (axis == 0) return Unimplemented("axis = 0: samples would become one");
  return ReshapeTo(n, x, {-1, shape.numel(static_cast<int>(axis), shape.rank())});
}

Status Reshape(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(n.Only("allowzero", 0));
  TD_ASSIGN_OR_RETURN(Ints dims, n.ConstantSizes(1));
  // The batch, as Shape gives it, or as a model has it that was saved for one size of it alone.
  const bool depends = n.graph().Desc(x).shape.rank() > 0 && n.graph().DependsOnBatch(x, 0);
  const bool fixed = !dims.empty() && dims[0] > 0 && dims[0] == n.graph().fixed_batch();
  if (depends && fixed) dims[0] = kOnnxBatch;
  const auto sized = std::find(dims.begin(), dims.end(), kOnnxBatch);
  if (sized != dims.end()) {
    const bool open = std::find(dims.begin(), dims.end(), -1) != dims.end();
    if (open && !(n.graph().HasBatch(x) && sized == dims.begin())) {
      return Unimplemented("the batch and -1, unless the batch is and stays the first dimension");
    }
    *sized = open ? 0 : -1;  // a second one is refused by the operator
  }
  return n.Done("reshape", {{x}}, {{"shape", dims}});
}

Status Squeeze(const OnnxNode& n) {
  if (const auto known = n.Known(0)) return KnowAgain(n, *known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(const Ints axes, n.Axes(12, shape.rank()));
  Ints dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (axes.empty() ? shape[axis] != 1 : !named) dims.push_back(shape[axis]);
    if (named && (axis == 0 || shape[axis] != 1)) {
      return InvalidArgument("dimension %d of %s is not 1", axis, ToString(shape));
    }
  }
  return ReshapeTo(n, x, dims);
}

Status Unsqueeze(const OnnxNode& n) {
  if (const auto known = n.Known(0)) return KnowAgain(n, *known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape shape = n.graph().Desc(x).shape;
  size_t more = n.Ints("axes", {}).size();
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(const Ints given, n.ConstantInts(1));
    more = given.size();
  }
  if (more > Shape::kRankMax) return InvalidArgument("%d axes", more);
  TD_ASSIGN_OR_RETURN(Ints axes, n.Axes(12, shape.rank() + static_cast<int>(more)));
  std::sort(axes.begin(), axes.end());
  Ints dims(shape.dims().begin(), shape.dims().end());
  for (const int64_t axis : axes) {
    if (axis == 0) return Unimplemented("axis 0: the first dimension is the batch");
    if (axis > static_cast<int64_t>(dims.size())) return InvalidArgument("axis %d", axis);
    dims.insert(dims.begin() + axis, 1);
  }
  return ReshapeTo(n, x, dims);
}

Status Concat(const OnnxNode& n) {
  Ints joined;
  bool known = n.inputs() > 0;
  for (size_t i = 0; known && i < n.inputs(); ++i) {
    const auto list = n.Known(i);
    known = list.has_value();
    if (known) joined.insert(joined.end(), list->begin(), list->end());
  }
  if (known) {
    TD_RETURN_IF_ERROR(n.Only("axis", 0));
    return n.Know(joined);
  }
  Slots inputs(1);
  for (size_t i = 0; i < n.inputs(); ++i) {
    TD_ASSIGN_OR_RETURN(inputs[0].emplace_back(), n.in(i));
  }
  return n.Done("concat", std::move(inputs), {{"axis", n.Int("axis", 0)}});
}

constexpr OnnxReadRow kRows[] = {
    {"Concat", Concat}, {"Flatten", Flatten}, {"Reshape", Reshape},
    {"Shape", ShapeOf}, {"Squeeze", Squeeze}, {"Unsqueeze", Unsqueeze},
};

}  // namespace

std::span<const OnnxReadRow> OnnxShapeReaders() { return kRows; }

}  // namespace tandem
