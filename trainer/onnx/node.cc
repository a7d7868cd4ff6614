#include <algorithm>

#include "onnx/onnx.pb.h"
#include "trainer/onnx/graph_reader.h"

namespace tandem::onnx {

size_t OnnxNode::inputs() const { return static_cast<size_t>(node_.input_size()); }

bool OnnxNode::has(size_t input) const { return input < inputs() && !value(input).empty(); }

const std::string& OnnxNode::value(size_t input) const {
  return node_.input(static_cast<int>(input));
}

StatusOr<std::string> OnnxNode::in(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing [TD2108]", input);
  return graph_.Var(value(input));
}

StatusOr<std::vector<int64_t>> OnnxNode::ConstantInts(size_t input) const {
  TD_ASSIGN_OR_RETURN(std::vector<int64_t> ints, ConstantSizes(input));
  const bool batch = std::any_of(ints.begin(), ints.end(), IsOnnxBatch);
  if (batch)
    return Unimplemented("input \"%s\" depends on the batch, but must be a constant [TD1214]",
                         value(input));
  return ints;
}

StatusOr<std::vector<int64_t>> OnnxNode::ConstantSizes(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing [TD2108]", input);
  const Tensor* tensor = graph_.Constant(value(input));
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

std::optional<std::vector<int64_t>> OnnxNode::Known(size_t input) const {
  auto ints = ConstantSizes(input);
  return ints.ok() ? std::optional(*std::move(ints)) : std::nullopt;
}

const float* OnnxNode::Scalar(size_t input) const {
  return has(input) ? graph_.Scalar(value(input)) : nullptr;
}

const ::onnx::AttributeProto* OnnxNode::Attr(const char* name) const {
  read_.insert(name);
  for (const auto& attr : node_.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

int64_t OnnxNode::Int(const char* name, int64_t fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->i();
}

double OnnxNode::Float(const char* name, double fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->f();
}

std::string OnnxNode::Text(const char* name, const std::string& fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->s();
}

std::vector<int64_t> OnnxNode::Ints(const char* name, std::vector<int64_t> fallback) const {
  const auto* attr = Attr(name);
  if (attr == nullptr) return fallback;
  return {attr->ints().begin(), attr->ints().end()};
}

Status OnnxNode::Only(const char* name, int64_t value) const {
  const int64_t given = Int(name, value);
  return given == value ? OkStatus()
                        : Unimplemented("attribute %s = %d is not supported [TD7015]", name, given);
}

StatusOr<int64_t> OnnxNode::Axis(int64_t axis, int rank) const {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  return InvalidArgument("dimension %d does not exist: the input has %d dimensions [TD2108]", axis,
                         rank);
}

StatusOr<std::vector<int64_t>> OnnxNode::Axes(int64_t last, int rank) const {
  std::vector<int64_t> axes = Ints("axes", {});
  if (opset() > last && has(1)) {
    TD_ASSIGN_OR_RETURN(axes, ConstantInts(1));
  }
  for (int64_t& axis : axes) {
    TD_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  return axes;
}

size_t OnnxNode::outputs() const { return static_cast<size_t>(node_.output_size()); }

const std::string& OnnxNode::out(size_t output) const {
  return node_.output(static_cast<int>(output));
}

const std::string& OnnxNode::name() const { return node_.name(); }

const std::string& OnnxNode::out() const { return out(0); }

Status OnnxNode::Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
                      AttrMap attrs) const {
  const std::string var = graph_.NewVar(out());
  TD_RETURN_IF_ERROR(graph_.Append(type, std::move(inputs), std::move(attrs), var));
  graph_.Bind(out(), var);
  return OkStatus();
}

Status OnnxNode::Is(const std::string& var) const {
  graph_.Bind(out(), var);
  return OkStatus();
}

StatusOr<std::string> OnnxNode::TempReshape(const std::string& var,
                                            const std::vector<int64_t>& sizes) const {
  const std::string name = graph_.NewVar(out() + ".reshape");
  TD_RETURN_IF_ERROR(graph_.Reshape(var, sizes, name));
  return name;
}

Status OnnxNode::Reshape(const std::string& var, const std::vector<int64_t>& sizes) const {
  const std::string name = graph_.NewVar(out());
  TD_RETURN_IF_ERROR(graph_.Reshape(var, sizes, name));
  return Is(name);
}

StatusOr<std::string> OnnxNode::Temp(const std::string& type,
                                     std::vector<std::vector<std::string>> inputs,
                                     AttrMap attrs) const {
  const std::string var = graph_.NewVar(out() + "." + type);
  TD_RETURN_IF_ERROR(graph_.Append(type, std::move(inputs), std::move(attrs), var));
  return var;
}

Status OnnxNode::AllRead() const {
  for (const auto& attr : node_.attribute()) {
    if (!read_.contains(attr.name()))
      return Unimplemented("attribute \"%s\" is not supported [TD7015]", attr.name());
  }
  return OkStatus();
}

}  // namespace tandem::onnx
