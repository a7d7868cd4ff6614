// Reads activations for which Tandem has no operator. The readers compose them of other operators.
#include <limits>

#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/op_readers_elements.h"

namespace tandem::onnx {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

// Returns min(X, 0). At X = 0 the gradient flows through this term and not through max(X, 0), as in
// PyTorch.
StatusOr<std::string> Below(const Node& n, const std::string& x) {
  return n.Temp("clip", {{x}}, {{"min", -kLargest}, {"max", 0.0}});
}

// Sets the node's result to relu(X) * scale + below.
Status GiveSum(const Node& n, const std::string& x, double scale, const std::string& below) {
  TD_ASSIGN_OR_RETURN(std::string above, n.Temp("relu", {{x}}));
  if (scale != 1) {
    TD_ASSIGN_OR_RETURN(above, n.Temp("scale", {{above}}, {{"scale", scale}}));
  }
  return n.Done("elementwise_add", {{above}, {below}});
}

Status LeakyRelu(const Node& n) {
  const double slope = n.attributes().Float("alpha", 0.01);
  if (slope < 0 || slope >= 1)
    return Unimplemented("alpha = %g is not supported, expected 0 to 1 [TD7015]", slope);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string low, n.Temp("scale", {{x}}, {{"scale", slope}}));
  return n.Done("elementwise_max", {{x}, {low}});
}

Status PRelu(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(std::string slope, n.in(1));
  TD_ASSIGN_OR_RETURN(std::string below, Below(n, x));
  TD_ASSIGN_OR_RETURN(below, Elementwise(n, "elementwise_mul", below, slope));
  return GiveSum(n, x, 1, below);
}

// Computes above * max(X, 0) + below * (exp(min(X, 0) * rate) - 1). With t = tanh(y / 2), the value
// exp(y) - 1 is 2 t / (1 - t). For y <= 0 this formula loses no digits.
Status Exponential(const Node& n, double above, double below, double rate) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string low, Below(n, x));
  TD_ASSIGN_OR_RETURN(const std::string half, n.Temp("scale", {{low}}, {{"scale", rate / 2}}));
  TD_ASSIGN_OR_RETURN(const std::string t, n.Temp("tanh", {{half}}));
  TD_ASSIGN_OR_RETURN(const std::string rest,
                      n.Temp("scale", {{t}}, {{"scale", -1.0}, {"bias", 1.0}}));
  TD_ASSIGN_OR_RETURN(const std::string ratio, n.Temp("elementwise_div", {{t}, {rest}}));
  TD_ASSIGN_OR_RETURN(const std::string part, n.Temp("scale", {{ratio}}, {{"scale", 2 * below}}));
  return GiveSum(n, x, above, part);
}

Status Elu(const Node& n) { return Exponential(n, 1, n.attributes().Float("alpha", 1), 1); }

Status Selu(const Node& n) {
  const double gamma = n.attributes().Float("gamma", 1.05070102214813232421875);
  return Exponential(n, gamma, gamma * n.attributes().Float("alpha", 1.67326319217681884765625), 1);
}

Status Celu(const Node& n) {
  const double alpha = n.attributes().Float("alpha", 1);
  if (!(alpha > 0)) return InvalidArgument("alpha = %g, expected a number above 0 [TD2108]", alpha);
  return Exponential(n, 1, alpha, 1 / alpha);
}

// Computes log(1 + exp(X)), which equals the cross entropy of sigmoid(X) with label 0.
Status Softplus(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string zeros, n.Temp("clip", {{x}}, {{"min", 0.0}, {"max", 0.0}}));
  TD_ASSIGN_OR_RETURN(const std::string label,
                      n.Temp("cast", {{zeros}}, {{"out_dtype", std::string("i64")}}));
  const std::string out = n.graph().program().NewVar(n.out());
  n.graph().Bind(n.out(), out);
  return n.graph().program().Append(
      ops::Op{.type = "sigmoid_cross_entropy",
              .inputs = {{x}, {label}},
              .outputs = {{n.graph().program().NewVar(out + ".sigmoid")}, {out}}});
}

// Returns clip(alpha * x + beta, 0, 1).
StatusOr<std::string> HardGate(const Node& n, const std::string& x, double alpha, double beta) {
  TD_ASSIGN_OR_RETURN(const std::string line,
                      n.Temp("scale", {{x}}, {{"scale", alpha}, {"bias", beta}}));
  return n.Temp("clip", {{line}}, {{"min", 0.0}, {"max", 1.0}});
}

Status HardSigmoid(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string out, HardGate(n, x, n.attributes().Float("alpha", 0.2),
                                                      n.attributes().Float("beta", 0.5)));
  return n.Is(out);
}

Status HardSwish(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string gate, HardGate(n, x, 1.0 / 6, 0.5));
  return n.Done("elementwise_mul", {{x}, {gate}});
}

constexpr ReadRow kReadActivationsRows[] = {
    {"Celu", Celu},
    {"Elu", Elu},
    {"HardSigmoid", HardSigmoid},
    {"HardSwish", HardSwish},
    {"LeakyRelu", LeakyRelu},
    {"PRelu", PRelu},
    {"Selu", Selu},
    {"Softplus", Softplus},
};

}  // namespace

std::span<const ReadRow> ActivationReaders() { return kReadActivationsRows; }

}  // namespace tandem::onnx
