// Reads normalisations, which use running statistics or the statistics of each sample.
#include <algorithm>

#include "trainer/onnx/op_readers.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

Status TrainingForm() {
  return Unimplemented(
      "the node is in training form, which is not supported [TD1216]; hint: export the model after "
      "model.eval()");
}

Status BatchNorm(const Node& n) {
  if (n.outputs() > 1) return TrainingForm();
  if (n.attributes().Int("training_mode", 0) != 0) return TrainingForm();
  TD_RETURN_IF_ERROR(n.attributes().Only("spatial", 1));
  std::vector<std::vector<std::string>> inputs(5);
  for (size_t i = 0; i < 5; ++i) {
    if (!n.has(i)) return InvalidArgument("input %d is missing [TD2108]", i);
    TD_ASSIGN_OR_RETURN(inputs[i].emplace_back(), i < 3 ? n.in(i) : n.graph().State(n.value(i)));
  }
  const std::string y = n.graph().program().NewVar(n.out());
  n.graph().Bind(n.out(), y);
  return n.graph().program().Append(
      ops::Op{.type = "batch_norm",
              .inputs = inputs,
              .outputs = {{y},
                          inputs[3],
                          inputs[4],
                          {n.graph().program().NewVar(y + ".SavedMean")},
                          {n.graph().program().NewVar(y + ".SavedInvStd")}},
              .attrs = {{"epsilon", n.attributes().Float("epsilon", 1e-5)},
                        {"momentum", n.attributes().Float("momentum", 0.9)}}});
}

Status LayerNorm(const Node& n) {
  if (n.outputs() > 1)
    return Unimplemented("the outputs mean and deviation are not supported [TD7015]");
  TD_RETURN_IF_ERROR(n.attributes().Only("stash_type", 1));
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(CheckLastAxis(n, x, -1));
  const auto axis = int64_t{n.graph().program().Desc(x).shape.rank() - 1};
  Slots inputs = {{x}, {}, {}};
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!n.has(i)) continue;
    TD_ASSIGN_OR_RETURN(inputs[i].emplace_back(), n.in(i));
  }
  return n.Done("layer_norm", std::move(inputs),
                {{"begin_norm_axis", axis}, {"epsilon", n.attributes().Float("epsilon", 1e-5)}});
}

// Returns whether input `i` has no effect: the input is known, is not trained, and contains only
// `number`.
bool IsNeutral(const Node& n, size_t i, float number) {
  const Tensor* known = n.has(i) ? n.graph().known().Untrained(n.value(i)) : nullptr;
  if (known == nullptr || known->dtype() != DType::kF32) return false;
  const auto numbers = known->span<float>();
  return std::all_of(numbers.begin(), numbers.end(), [&](float v) { return v == number; });
}

// Sets the result of the node to X times the scale (input 1) plus the bias (input 2). Scale and
// bias have one number per channel.
Status GiveChannels(const Node& n, std::string x) {
  const ops::AttrMap channels = {{"axis", int64_t{1}}};
  if (!IsNeutral(n, 1, 1)) {
    TD_ASSIGN_OR_RETURN(const std::string scale, n.in(1));
    TD_ASSIGN_OR_RETURN(x, n.Temp("elementwise_mul", {{x}, {scale}}, channels));
  }
  if (IsNeutral(n, 2, 0)) return n.Is(x);
  TD_ASSIGN_OR_RETURN(const std::string bias, n.in(2));
  return n.Done("elementwise_add", {{x}, {bias}}, channels);
}

// Normalises X [n, groups, ...] to mean 0 and variance 1 in each group of each sample.
StatusOr<std::string> NormalRows(const Node& n, const std::string& x) {
  return n.Temp(
      "layer_norm", {{x}, {}, {}},
      {{"begin_norm_axis", int64_t{2}}, {"epsilon", n.attributes().Float("epsilon", 1e-5)}});
}

// Checks that X is [n, channels, ...], and that inputs 1 and 2 have one number per channel.
Status CheckChannels(const Node& n, const Shape& x) {
  if (x.rank() < 3)
    return InvalidArgument("X has shape %s, expected [n, channels, ...] [TD2108]", ToString(x));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const Tensor* known = n.has(i) ? n.graph().known().Find(n.value(i)) : nullptr;
    if (known != nullptr && known->shape() == Shape({x[1]})) continue;
    return Unimplemented(
        "input %d: expected %d constants, one for each channel [TD7015]; hint: export the model "
        "with opset_version=20 or 21",
        i, x[1]);
  }
  return OkStatus();
}

Status InstanceNorm(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(CheckChannels(n, n.graph().program().Desc(x).shape));
  TD_ASSIGN_OR_RETURN(const std::string rows, NormalRows(n, x));
  return GiveChannels(n, rows);
}

Status GroupNorm(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(n.attributes().Only("stash_type", 1));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_RETURN_IF_ERROR(CheckChannels(n, shape));
  const int64_t groups = n.attributes().Int("num_groups", 0);
  if (groups < 1 || shape[1] % groups != 0) {
    return InvalidArgument("num_groups = %d does not divide the %d channels [TD2108]", groups,
                           shape[1]);
  }
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(x));
  Ints grouped = {sizes[0], groups, shape[1] / groups};
  grouped.insert(grouped.end(), sizes.begin() + 2, sizes.end());
  TD_ASSIGN_OR_RETURN(std::string rows, n.TempReshape(x, grouped));
  TD_ASSIGN_OR_RETURN(rows, NormalRows(n, rows));
  TD_ASSIGN_OR_RETURN(rows, n.TempReshape(rows, sizes));
  return GiveChannels(n, rows);
}

// Computes X / sqrt(mean(X X) + epsilon) by a layer normalisation of the concatenation of X and -X.
// The concatenation has mean 0, and its variance is the mean square of X. The result is the half of
// the output that belongs to X.
Status RmsNorm(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(CheckLastAxis(n, x, -1));
  const Shape shape = n.graph().program().Desc(x).shape;
  const auto axis = int64_t{shape.rank() - 1};
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(x));
  if (batch && batch->axis == axis)
    return Unimplemented(
        "the node computes a mean square over the batch, which is not supported [TD1214]");
  TD_ASSIGN_OR_RETURN(const std::string negative, n.Temp("scale", {{x}}, {{"scale", -1.0}}));
  TD_ASSIGN_OR_RETURN(const std::string both, n.Temp("concat", {{x, negative}}, {{"axis", axis}}));
  TD_ASSIGN_OR_RETURN(
      const std::string rows,
      n.Temp("layer_norm", {{both}, {}, {}},
             {{"begin_norm_axis", axis}, {"epsilon", n.attributes().Float("epsilon", 1e-5)}}));
  return n.Done(
      "slice", {{rows}},
      {{"axes", Ints{axis}}, {"starts", Ints{0}}, {"ends", Ints{shape[shape.rank() - 1]}}});
}

constexpr ReadRow kReadNormRows[] = {
    {"BatchNormalization", BatchNorm},       {"GroupNormalization", GroupNorm},
    {"InstanceNormalization", InstanceNorm}, {"LayerNormalization", LayerNorm},
    {"RMSNormalization", RmsNorm},
};

}  // namespace

std::span<const ReadRow> NormReaders() { return kReadNormRows; }

}  // namespace tandem::onnx
