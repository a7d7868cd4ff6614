#include "trainer/onnx/op_readers.h"

namespace tandem {
namespace {

using Ints = std::vector<int64_t>;

// A window over the two dimensions of an image.
struct Window {
  Ints strides, paddings, dilations;
};

// ONNX's pads are all beginnings, then all ends; here both sides have the same.
StatusOr<Window> WindowOf(const OnnxNode& n) {
  Window w;
  w.strides = n.Ints("strides", {1, 1});
  w.dilations = n.Ints("dilations", {1, 1});
  const Ints pads = n.Ints("pads", {0, 0, 0, 0});
  if (w.strides.size() != 2 || w.dilations.size() != 2 || pads.size() != 4) {
    return Unimplemented("windows over other than two dimensions");
  }
  if (pads[0] != pads[2] || pads[1] != pads[3]) {
    return Unimplemented("pads that differ from side to side: %d %d %d %d", pads[0], pads[1],
                         pads[2], pads[3]);
  }
  w.paddings = {pads[0], pads[1]};
  const std::string automatic = n.Text("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    w.paddings = {0, 0};
  } else if (automatic != "NOTSET") {
    return Unimplemented("auto_pad = %s", automatic);
  }
  return w;
}

Status Conv(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string filter, n.in(1));
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(n));
  const Shape shape = n.graph().Desc(filter).shape;
  const Ints kernel = n.Ints("kernel_shape", {});
  if (!kernel.empty() && shape.rank() == 4 && kernel != Ints{shape[2], shape[3]}) {
    return InvalidArgument("kernel_shape is not that of the filter %s", ToString(shape));
  }
  std::vector<std::vector<std::string>> inputs = {{x}, {filter}, {}};
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs[2].emplace_back(), n.in(2));
  }
  return n.Done("conv2d", std::move(inputs),
                {{"strides", w.strides},
                 {"paddings", w.paddings},
                 {"dilations", w.dilations},
                 {"groups", n.Int("group", 1)}});
}

Status Pool(const OnnxNode& n, bool max) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Window w, WindowOf(n));
  if (w.dilations != Ints{1, 1}) return Unimplemented("dilations");
  if (n.outputs() > 1) return Unimplemented("indices as a second output");
  TD_RETURN_IF_ERROR(n.Only("ceil_mode", 0));
  TD_RETURN_IF_ERROR(n.Only("storage_order", 0));
  return n.Done("pool2d", {{x}},
                {{"pooling_type", std::string(max ? "max" : "avg")},
                 {"ksize", n.Ints("kernel_shape", {})},
                 {"strides", w.strides},
                 {"paddings", w.paddings},
                 {"exclusive", n.Int("count_include_pad", 0) == 0}});
}
Status MaxPool(const OnnxNode& n) { return Pool(n, true); }
Status AveragePool(const OnnxNode& n) { return Pool(n, false); }

Status GlobalPool(const OnnxNode& n, const char* type) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("pool2d", {{x}}, {{"pooling_type", std::string(type)}, {"global_pooling", true}});
}
Status GlobalMaxPool(const OnnxNode& n) { return GlobalPool(n, "max"); }
Status GlobalAveragePool(const OnnxNode& n) { return GlobalPool(n, "avg"); }

Status TrainingForm() {
  return Unimplemented("the form of training [TD1216]; hint: export it after model.eval()");
}

Status BatchNorm(const OnnxNode& n) {
  if (n.outputs() > 1) return TrainingForm();
  if (n.Int("training_mode", 0) != 0) return TrainingForm();
  TD_RETURN_IF_ERROR(n.Only("spatial", 1));
  std::vector<std::vector<std::string>> inputs(5);
  for (size_t i = 0; i < 5; ++i) {
    if (!n.has(i)) return InvalidArgument("input %d is missing", i);
    TD_ASSIGN_OR_RETURN(inputs[i].emplace_back(), i < 3 ? n.in(i) : n.graph().State(n.value(i)));
  }
  const std::string y = n.graph().NewVar(n.out());
  n.graph().Bind(n.out(), y);
  return n.graph().Append(
      Op{.type = "batch_norm",
         .inputs = inputs,
         .outputs = {{y},
                     inputs[3],
                     inputs[4],
                     {n.graph().NewVar(y + ".SavedMean")},
                     {n.graph().NewVar(y + ".SavedInvStd")}},
         .attrs = {{"epsilon", n.Float("epsilon", 1e-5)}, {"momentum", n.Float("momentum", 0.9)}}});
}

constexpr OnnxReadRow kRows[] = {
    {"AveragePool", AveragePool},
    {"BatchNormalization", BatchNorm},
    {"Conv", Conv},
    {"GlobalAveragePool", GlobalAveragePool},
    {"GlobalMaxPool", GlobalMaxPool},
    {"MaxPool", MaxPool},
};

}  // namespace

std::span<const OnnxReadRow> OnnxImageReaders() { return kRows; }

}  // namespace tandem
