// Runs graphs that tests built by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/graph/autodiff.h"
#include "tests/onnx/hand_graph.h"

namespace tandem::onnx {

using Floats = std::vector<float>;

inline Floats NumbersOf(const exec::Plan& plan, const std::string& var) {
  const auto numbers = plan.Get(var)->span<float>();
  return {numbers.begin(), numbers.end()};
}

// Imports the model and returns the output "y" of its last node for input "x". If `slopes` is not
// null, *slopes gets the gradient of the sum of "y" with respect to the parameter "w".
inline Floats OutputOf(const HandGraph& graph, const Floats& x, int64_t batch = 1,
                       Floats* slopes = nullptr) {
  auto import = graph.Import();
  if (!import.ok()) {
    ADD_FAILURE() << import.status();
    return {};
  }
  graph::Program& program = import->program;
  EXPECT_TRUE(graph::BindBatch(program, batch).ok());
  exec::PlanOptions options;
  std::string slope = graph::GradName("w");
  options.fetch = {"y"};
  if (slopes != nullptr) {
    program.loss = "loss";
    const ops::Op mean{.type = "mean", .inputs = {{"y"}}, .outputs = {{"loss"}}};
    EXPECT_TRUE(graph::AppendOp(program, mean).ok());
    const auto count = static_cast<float>(program.FindVar("y")->desc.shape.numel());
    const auto grads = graph::AppendBackward(program, count);
    EXPECT_TRUE(grads.ok()) << grads.status();
    for (const graph::ParamGrad& grad : *grads) {
      if (grad.param == "w") slope = grad.grad;  // the sum, if several operators read "w"
    }
    options.fetch.push_back(slope);
  }
  CpuDevice device;
  exec::Scope scope(device);
  EXPECT_TRUE(exec::Initialize(program, 1, scope).ok());
  const auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.status() << "\n" << graph::Dump(program);
    return {};
  }
  for (const auto& [name, tensor] : import->tensors) {
    std::memcpy((*plan)->Get(name)->data(), tensor.data(), tensor.bytes());
  }
  const auto given = (*plan)->Get("x");
  EXPECT_EQ(static_cast<size_t>(given->numel()), x.size());
  if (given->dtype() == DType::kI64) {
    std::copy(x.begin(), x.end(), given->span<int64_t>().begin());
  } else {
    std::copy(x.begin(), x.end(), given->span<float>().begin());
  }
  const Status status = exec::Executor(**plan).Run();
  EXPECT_TRUE(status.ok()) << status;
  if (slopes != nullptr) *slopes = NumbersOf(**plan, slope);
  return NumbersOf(**plan, "y");
}

// Returns a graph that computes s = x + w with w = 0. Thus the gradient of w equals the gradient of
// x.
inline HandGraph Shifted(int64_t count, int64_t opset = 13) {
  HandGraph graph({count}, opset);
  graph.Weight("w", {count}, 0);
  graph.Node("Add", {"x", "w"}, "s");
  return graph;
}

}  // namespace tandem::onnx
