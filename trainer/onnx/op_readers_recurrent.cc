// Reads the recurrent layers LSTM and GRU. The reader unrolls the layer: each time step has its own
// operators.
#include <algorithm>

#include "onnx/onnx.pb.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

constexpr int64_t kStepsMax = 512;  // maximum number of time steps, each with separate operators

Names Optional(const std::string& var) { return var.empty() ? Names{} : Names{var}; }

// The properties that LSTM and GRU have in common. X is [steps, batch, width], and the layer has
// one or two directions.
struct Layer {
  std::string x;
  int64_t steps = 0, width = 0, hidden = 0, gates = 0;
  bool reverse = false, both = false;
  // True: the reset gate of a GRU multiplies the state. False: the reset gate multiplies the
  // product of the state with R.
  bool resets_state = false;
  int directions() const { return both ? 2 : 1; }
};

// Checks that the node's attributes and inputs are those of the standard layer. UNIMPLEMENTED: an
// attribute or input differs.
Status CheckStandard(const Node& n, const Layer& layer) {
  TD_RETURN_IF_ERROR(n.attributes().Only("layout", 0));
  if (n.has(4)) return Unimplemented("input 4, the sequence lengths, is not supported [TD7015]");
  const ::onnx::AttributeProto* given = n.attributes().Find("activations");
  if (given == nullptr) return OkStatus();
  static constexpr const char* kTypes[] = {"Sigmoid", "Tanh", "Tanh"};
  const size_t count = layer.gates == 4 ? 3 : 2;
  bool standard =
      static_cast<size_t>(given->strings_size()) == count * static_cast<size_t>(layer.directions());
  for (int i = 0; standard && i < given->strings_size(); ++i) {
    standard = given->strings(i) == kTypes[static_cast<size_t>(i) % count];
  }
  return standard ? OkStatus()
                  : Unimplemented("only the activations Sigmoid and Tanh are supported [TD7015]");
}

StatusOr<Layer> LayerOf(const Node& n, int64_t gates) {
  Layer layer{.gates = gates};
  TD_ASSIGN_OR_RETURN(layer.x, n.in(0));
  const Shape shape = n.graph().program().Desc(layer.x).shape;
  const Tensor* recurrence = n.has(2) ? n.graph().known().Find(n.value(2)) : nullptr;
  if (shape.rank() != 3 || recurrence == nullptr || recurrence->shape().rank() != 3) {
    return Unimplemented(
        "X and R must have three dimensions each, and R must be a constant [TD7015]");
  }
  TD_ASSIGN_OR_RETURN(const auto batch, n.graph().program().BatchOf(layer.x));
  if (!batch || batch->axis != 1 || batch->times != 1) {
    return Unimplemented("dimension 1 of X is not the batch [TD1214]");
  }
  layer.steps = shape[0];
  layer.width = shape[2];
  layer.hidden = recurrence->shape()[2];
  if (layer.steps < 1 || layer.steps > kStepsMax) {
    return Unimplemented("X has %d time steps, expected 1 to %d [TD7015]", layer.steps, kStepsMax);
  }
  const std::string direction = n.attributes().Text("direction", "forward");
  layer.both = direction == "bidirectional";
  layer.reverse = direction == "reverse";
  if (!layer.both && !layer.reverse && direction != "forward") {
    return InvalidArgument("direction = %s is unknown [TD2108]", direction);
  }
  const int64_t hidden = n.attributes().Int("hidden_size", layer.hidden);
  if (hidden != layer.hidden) {
    return InvalidArgument("hidden_size is %d, but input R has hidden size %d [TD2108]", hidden,
                           layer.hidden);
  }
  TD_RETURN_IF_ERROR(CheckStandard(n, layer));
  return layer;
}

// Appends the operators of a layer. After the first error, all further calls do nothing.
class Unrolled {
 public:
  Unrolled(const Node& n, Layer layer) : n_(n), graph_(n.graph()), layer_(std::move(layer)) {}

  Status Run();

 private:
  // The weights of one direction: W [width, gates * hidden], R [hidden, gates * hidden], and the
  // two rows of B. "": the node has no B. With resets_state, the columns of the hidden gate in R
  // and B are separate variables.
  struct Weights {
    std::string w, r, bias_w, bias_r, r_hidden, bias_hidden;
  };
  // The values that a time step passes to the next one. Only an LSTM has a cell.
  struct State {
    std::string h, cell;
  };

  std::string Keep(StatusOr<std::string> var) {
    if (status_.ok()) status_ = var.status();
    return status_.ok() ? *std::move(var) : "";
  }
  std::string Name(const std::string& what) const {
    return graph_.program().NewVar(absl::StrFormat("%s.%s.%s", n_.name(), at_, what));
  }
  std::string Op(const std::string& type, std::vector<Names> inputs, ops::AttrMap attrs = {}) {
    const std::string out = Name(type);
    if (status_.ok())
      status_ = graph_.program().Append(type, std::move(inputs), std::move(attrs), out);
    return out;
  }
  std::string Reshape(const std::string& x, const Ints& sizes) {
    const std::string out = Name("reshape");
    if (status_.ok()) status_ = graph_.program().Reshape(x, sizes, out);
    return out;
  }
  Names Split(const std::string& x, int64_t axis, int64_t count, const Ints& sizes = {});
  std::string Concat(const Names& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : Op("concat", {parts}, {{"axis", axis}});
  }
  std::string Add(const std::string& a, const std::string& b) {
    return Op("elementwise_add", {{a}, {b}});
  }
  std::string Mul(const std::string& a, const std::string& b) {
    return Op("elementwise_mul", {{a}, {b}});
  }

  std::string Part(size_t input, int direction, const Ints& dims);
  Weights WeightsOf(int direction);
  std::string Filled(float number);
  std::string FirstState(size_t input, int direction);
  State LstmStep(const std::string& x, const Weights& weights, const State& before);
  State GruStep(const std::string& x, const Weights& weights, const State& before);
  void Direction(int direction);
  void Give(size_t output, const Names& parts, int64_t axis);

  const Node& n_;
  GraphReader& graph_;
  const Layer layer_;
  Status status_;
  std::string at_ = "layer";      // prefix of the names of new variables
  Names all_, last_, last_cell_;  // output variables of each direction
};

// Splits `x` into `count` equal parts, or into parts of the sizes `sizes`.
Names Unrolled::Split(const std::string& x, int64_t axis, int64_t count, const Ints& sizes) {
  Names parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(Name(absl::StrFormat("part%d", i)));
  }
  if (!status_.ok()) return parts;
  ops::AttrMap attrs = {{"axis", axis}, {"num", count}};
  if (!sizes.empty()) attrs = {{"axis", axis}, {"sections", sizes}};
  status_ = graph_.program().Append(tandem::ops::Op{
      .type = "split", .inputs = {{x}}, .outputs = {parts}, .attrs = std::move(attrs)});
  return parts;
}

// Returns the part of input `input` that belongs to one direction. `dims`: dimensions of this part.
std::string Unrolled::Part(size_t input, int direction, const Ints& dims) {
  const Tensor* whole = n_.has(input) ? graph_.known().Find(n_.value(input)) : nullptr;
  Ints wanted = {layer_.directions()};
  wanted.insert(wanted.end(), dims.begin(), dims.end());
  if (whole == nullptr) {
    return Keep(
        Unimplemented("input %d is not a constant, expected a constant of shape %s [TD7015]", input,
                      ToString(Shape(wanted))));
  }
  if (whole->shape() != Shape(wanted)) {
    return Keep(Unimplemented("input %d has shape %s, expected shape %s [TD7015]", input,
                              ToString(whole->shape()), ToString(Shape(wanted))));
  }
  return Keep(graph_.known().AddPart(n_.value(input), direction));
}

Unrolled::Weights Unrolled::WeightsOf(int direction) {
  const int64_t rows = layer_.gates * layer_.hidden;
  const std::string w = Part(1, direction, {rows, layer_.width});
  const std::string r = Part(2, direction, {rows, layer_.hidden});
  if (!status_.ok()) return {};
  Weights weights;
  weights.w = Keep(graph_.Matrix(w, /*transposed=*/true));
  weights.r = Keep(graph_.Matrix(r, /*transposed=*/true));
  const Ints gates = {2 * layer_.hidden, layer_.hidden};
  if (layer_.resets_state) {
    const Names parts = Split(weights.r, 1, 2, gates);
    weights.r = parts[0];
    weights.r_hidden = parts[1];
  }
  if (!n_.has(3) || !status_.ok()) return weights;
  const std::string bias = Part(3, direction, {2 * rows});
  if (!status_.ok()) return weights;
  const Names parts = Split(Keep(graph_.Var(bias)), 0, 2);
  weights.bias_w = parts[0];
  weights.bias_r = parts[1];
  if (layer_.resets_state) {
    const Names of_r = Split(parts[1], 0, 2, gates);
    weights.bias_r = of_r[0];
    weights.bias_hidden = of_r[1];
  }
  return weights;
}

// Returns a variable [batch, hidden] in which all elements are `number`.
std::string Unrolled::Filled(float number) {
  auto row = graph_.known().NewTensor(DType::kF32, {1, layer_.hidden});
  if (!row.ok()) return Keep(row.status());
  std::fill(row->span<float>().begin(), row->span<float>().end(), number);
  const std::string value = Name("first");
  graph_.known().Add(value, *std::move(row));
  const std::string ones = Keep(graph_.Ones());
  return Op("fc", {{ones}, {Keep(graph_.Var(value))}, {}});
}

// Returns the initial state of one direction: its part of input `input` [directions, batch,
// hidden], or zeros if the node lacks the input.
std::string Unrolled::FirstState(size_t input, int direction) {
  if (!n_.has(input)) return Filled(0);
  if (const Tensor* known = graph_.known().Find(n_.value(input)); known != nullptr) {
    const auto numbers = known->dtype() == DType::kF32 ? known->span<float>() : std::span<float>();
    const bool same = !numbers.empty() && std::all_of(numbers.begin(), numbers.end(),
                                                      [&](float v) { return v == numbers[0]; });
    if (same) return Filled(numbers[0]);
    return Keep(
        Unimplemented("input %d: the initial state is a constant with different numbers, which is "
                      "not supported [TD1214]",
                      input));
  }
  std::string state = Keep(n_.in(input));
  if (!status_.ok()) return "";
  if (layer_.both) {
    const Ints axis = {0}, begin = {direction}, end = {direction + 1};
    state = Op("slice", {{state}}, {{"axes", axis}, {"starts", begin}, {"ends", end}});
  }
  return Reshape(state, {kBatch + 1, layer_.hidden});
}

Unrolled::State Unrolled::LstmStep(const std::string& x, const Weights& weights,
                                   const State& before) {
  const std::string sum = Add(x, Op("fc", {{before.h}, {weights.r}, Optional(weights.bias_r)}));
  const Names gates = Split(sum, 1, 4);  // the gates of an LSTM: input, output, forget, cell
  const std::string in = Mul(Op("sigmoid", {{gates[0]}}), Op("tanh", {{gates[3]}}));
  const std::string kept = Mul(Op("sigmoid", {{gates[2]}}), before.cell);
  const std::string cell = Add(kept, in);
  return {Mul(Op("sigmoid", {{gates[1]}}), Op("tanh", {{cell}})), cell};
}

Unrolled::State Unrolled::GruStep(const std::string& x, const Weights& weights,
                                  const State& before) {
  const Names of_x = Split(x, 1, 3);  // the gates of a GRU: update, reset, hidden
  const bool split = !weights.r_hidden.empty();
  const Names of_h =
      Split(Op("fc", {{before.h}, {weights.r}, Optional(weights.bias_r)}), 1, split ? 2 : 3);
  const std::string update = Op("sigmoid", {{Add(of_x[0], of_h[0])}});
  const std::string reset = Op("sigmoid", {{Add(of_x[1], of_h[1])}});
  const std::string hidden =
      split ? Op("fc", {{Mul(reset, before.h)}, {weights.r_hidden}, Optional(weights.bias_hidden)})
            : Mul(reset, of_h[2]);
  const std::string next = Op("tanh", {{Add(of_x[2], hidden)}});
  const std::string way = Op("elementwise_sub", {{before.h}, {next}});
  return {Add(next, Mul(update, way)), ""};
}

void Unrolled::Direction(int direction) {
  at_ = absl::StrFormat("d%d", direction);
  const Weights weights = WeightsOf(direction);
  const auto rows = FillSizes(graph_.program(), layer_.x, {-1, layer_.width});
  if (status_.ok()) status_ = rows.status();
  if (!status_.ok()) return;
  const int64_t columns = layer_.gates * layer_.hidden;
  std::string x = Reshape(layer_.x, *rows);
  x = Op("fc", {{x}, {weights.w}, Optional(weights.bias_w)});
  x = Reshape(x, {layer_.steps, kBatch + 1, columns});
  const Names steps = Split(x, 0, layer_.steps);
  const bool lstm = layer_.gates == 4;
  State state = {FirstState(5, direction), lstm ? FirstState(6, direction) : ""};
  Names outputs(steps.size());
  const bool reverse = layer_.reverse || direction == 1;
  for (size_t i = 0; i < steps.size() && status_.ok(); ++i) {
    const size_t t = reverse ? steps.size() - 1 - i : i;
    at_ = absl::StrFormat("d%d.t%d", direction, t);
    const std::string row = Reshape(steps[t], {kBatch + 1, columns});
    state = lstm ? LstmStep(row, weights, state) : GruStep(row, weights, state);
    outputs[t] = Reshape(state.h, {1, 1, kBatch + 1, layer_.hidden});
  }
  at_ = absl::StrFormat("d%d", direction);
  all_.push_back(Concat(outputs, 0));
  last_.push_back(Reshape(state.h, {1, kBatch + 1, layer_.hidden}));
  if (lstm) last_cell_.push_back(Reshape(state.cell, {1, kBatch + 1, layer_.hidden}));
}

void Unrolled::Give(size_t output, const Names& parts, int64_t axis) {
  if (!status_.ok() || parts.empty() || output >= n_.outputs() || n_.out(output).empty()) return;
  graph_.Bind(n_.out(output), Concat(parts, axis));
}

Status Unrolled::Run() {
  for (int d = 0; d < layer_.directions() && status_.ok(); ++d) Direction(d);
  at_ = "layer";
  Give(0, all_, 1);
  Give(1, last_, 0);
  Give(2, last_cell_, 0);
  return status_;
}

Status Lstm(const Node& n) {
  TD_RETURN_IF_ERROR(n.attributes().Only("input_forget", 0));
  if (n.has(7)) return Unimplemented("input 7, the peepholes, is not supported [TD7015]");
  TD_ASSIGN_OR_RETURN(Layer layer, LayerOf(n, 4));
  return Unrolled(n, std::move(layer)).Run();
}

Status Gru(const Node& n) {
  TD_ASSIGN_OR_RETURN(Layer layer, LayerOf(n, 3));
  layer.resets_state = n.attributes().Int("linear_before_reset", 0) == 0;
  return Unrolled(n, std::move(layer)).Run();
}

constexpr ReadRow kReadRecurrentRows[] = {{"GRU", Gru}, {"LSTM", Lstm}};

}  // namespace

std::span<const ReadRow> RecurrentReaders() { return kReadRecurrentRows; }

}  // namespace tandem::onnx
