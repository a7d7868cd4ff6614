#include "trainer/onnx/node.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"

namespace tandem::onnx {

size_t Node::inputs() const { return static_cast<size_t>(node_.input_size()); }

bool Node::has(size_t input) const { return input < inputs() && !value(input).empty(); }

const std::string& Node::value(size_t input) const {
  TD_REQUIRE(input < inputs());
  return node_.input(static_cast<int>(input));
}

StatusOr<std::string> Node::in(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing [TD2108]", input);
  return graph_.Var(value(input));
}

StatusOr<std::vector<int64_t>> Node::ConstantInts(size_t input) const {
  TD_ASSIGN_OR_RETURN(std::vector<int64_t> ints, ConstantSizes(input));
  const bool batch = std::any_of(ints.begin(), ints.end(), IsBatch);
  if (batch)
    return Unimplemented("input \"%s\" depends on the batch, but must be a constant [TD1214]",
                         value(input));
  return ints;
}

StatusOr<std::vector<int64_t>> Node::ConstantSizes(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing [TD2108]", input);
  const Tensor* tensor = graph_.known().Find(value(input));
  if (tensor == nullptr) {
    return Unimplemented("input \"%s\" is computed by a node, but must be a constant [TD7015]",
                         value(input));
  }
  if (tensor->dtype() == DType::kF32) {
    return InvalidArgument("input \"%s\" must contain integers [TD2108]", value(input));
  }
  if (tensor->dtype() == DType::kI64) {
    return std::vector<int64_t>(tensor->span<int64_t>().begin(), tensor->span<int64_t>().end());
  }
  return std::vector<int64_t>(tensor->span<int32_t>().begin(), tensor->span<int32_t>().end());
}

std::optional<std::vector<int64_t>> Node::Known(size_t input) const {
  auto ints = ConstantSizes(input);
  return ints.ok() ? std::optional(*std::move(ints)) : std::nullopt;
}

const float* Node::Scalar(size_t input) const {
  return has(input) ? graph_.known().Scalar(value(input)) : nullptr;
}

StatusOr<std::vector<int64_t>> Node::Axes(int64_t last, int rank) const {
  std::vector<int64_t> axes = attributes_.Ints("axes", {});
  if (opset() > last && has(1)) {
    TD_ASSIGN_OR_RETURN(axes, ConstantInts(1));
  }
  for (int64_t& axis : axes) {
    TD_ASSIGN_OR_RETURN(axis, NonNegativeAxis(axis, rank));
  }
  return axes;
}

size_t Node::outputs() const { return static_cast<size_t>(node_.output_size()); }

const std::string& Node::out(size_t output) const {
  TD_REQUIRE(output < outputs());
  return node_.output(static_cast<int>(output));
}

const std::string& Node::name() const { return node_.name(); }

const std::string& Node::op_type() const { return node_.op_type(); }

Status Node::Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
                  ops::AttrMap attrs) const {
  const std::string var = graph_.program().NewVar(out());
  TD_RETURN_IF_ERROR(graph_.program().Append(type, std::move(inputs), std::move(attrs), var));
  graph_.Bind(out(), var);
  return OkStatus();
}

Status Node::Is(const std::string& var) const {
  graph_.Bind(out(), var);
  return OkStatus();
}

StatusOr<std::string> Node::TempReshape(const std::string& var,
                                        const std::vector<int64_t>& sizes) const {
  const std::string name = graph_.program().NewVar(out() + ".reshape");
  TD_RETURN_IF_ERROR(graph_.program().Reshape(var, sizes, name));
  return name;
}

Status Node::Reshape(const std::string& var, const std::vector<int64_t>& sizes) const {
  const std::string name = graph_.program().NewVar(out());
  TD_RETURN_IF_ERROR(graph_.program().Reshape(var, sizes, name));
  return Is(name);
}

StatusOr<std::string> Node::Temp(const std::string& type,
                                 std::vector<std::vector<std::string>> inputs,
                                 ops::AttrMap attrs) const {
  const std::string var = graph_.program().NewVar(out() + "." + type);
  TD_RETURN_IF_ERROR(graph_.program().Append(type, std::move(inputs), std::move(attrs), var));
  return var;
}

Status Node::Know(const std::vector<int64_t>& list) const {
  return graph_.known().AddInts(out(), list);
}

void Node::Know(Tensor value) const { graph_.known().Add(out(), std::move(value)); }

StatusOr<int64_t> NonNegativeAxis(int64_t axis, int rank) {
  TD_REQUIRE(rank >= 0 && rank <= Shape::kRankMax);
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  return InvalidArgument("dimension %d does not exist: the input has %d dimensions [TD2108]", axis,
                         rank);
}

}  // namespace tandem::onnx
