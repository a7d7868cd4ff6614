// Reference results of fused operators. Each oracle runs the operators that the fused operator
// replaces, one after another.
#include <algorithm>
#include <map>

#include "tests/ops/oracle.h"

namespace tandem::optest {

using Values = std::vector<Value>;

namespace {

// Act returns relu or scale of x. ActSlope returns the derivative of this activation where its
// result is `out`.
double Act(const OracleArgs& a, double x) {
  const bool relu = a.Get<std::string>("functors").find("relu") != std::string::npos;
  return relu ? std::max(x, 0.0) : a.Get<double>("scale") * x;
}
double ActSlope(const OracleArgs& a, double out) {
  const bool relu = a.Get<std::string>("functors").find("relu") != std::string::npos;
  return relu ? (out > 0 ? 1.0 : 0.0) : a.Get<double>("scale");
}
bool ActFirst(const OracleArgs& a) {
  return a.Get<std::string>("functors").starts_with("elementwise_add");
}

}  // namespace

Values OracleFusedElemwiseActivation(const OracleArgs& a) {
  Value y = a.in[1];
  if (ActFirst(a)) {
    for (double& v : y.v) v = Act(a, v);
  }
  const Value in[] = {a.in[0], y};
  const ops::AttrMap attrs = {{"axis", a.Get<int64_t>("axis")}};
  Values sum = FindOracle("elementwise_add")({attrs, "elementwise_add", in});
  if (!ActFirst(a)) {
    for (double& v : sum[0].v) v = Act(a, v);
  }
  return sum;
}

Values OracleFusedElemwiseActivationGrad(const OracleArgs& a) {
  Value g = a.in[2];
  for (size_t i = 0; !ActFirst(a) && i < g.v.size(); ++i) g.v[i] *= ActSlope(a, a[0][i]);
  const Value in[] = {a.in[0], a.in[1], g};
  const ops::AttrMap attrs = {{"axis", a.Get<int64_t>("axis")}};
  Values grads = FindOracle("elementwise_add_grad")({attrs, "elementwise_add_grad", in});
  for (size_t i = 0; ActFirst(a) && i < grads[1].v.size(); ++i) {
    grads[1].v[i] *= ActSlope(a, a[1][i]);
  }
  return grads;
}

// Runs the operators of the fused operator's body, one after another.
Values OracleFusedElementwise(const OracleArgs& a) {
  std::map<std::string, Value> values;
  for (size_t i = 0; i < a.in.size(); ++i) values["in" + std::to_string(i)] = a.in[i];
  for (const ops::Op& op : a.body) {
    Values in;
    for (const auto& slot : op.inputs) {
      if (slot.empty()) in.emplace_back();
      for (const auto& name : slot) in.push_back(values.at(name));
    }
    Values out = FindOracle(op.type)({op.attrs, op.type, in});
    size_t position = 0;
    for (const auto& slot : op.outputs) {
      if (slot.empty()) ++position;
      for (const auto& name : slot) values[name] = out[position++];
    }
  }
  Values results;
  for (size_t i = 0; values.contains("out" + std::to_string(i)); ++i) {
    results.push_back(values["out" + std::to_string(i)]);
  }
  return results;
}

}  // namespace tandem::optest
