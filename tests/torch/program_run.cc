// program_run runs programs on tensors from files. It is Tandem's part of tests/torch/ops.py.
//
// Usage: program_run DIR [--half]
//
// For each DIR/x.pbtxt (proto/program.proto) the variables get the values of DIR/x.safetensors. If
// the program has a loss, gradient operators are added to it. The program runs once.
// DIR/x.out.safetensors gets every variable that the program computes. Gradients of parameters are
// dense and have the name "<parameter>@GRAD". With --half, amp runs the first operator in bf16.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "common/strategy/text_file.h"
#include "common/tensor/device.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "proto/strategy.pb.h"
#include "trainer/files/safetensors.h"

namespace tandem {
namespace {

StatusOr<graph::Program> ReadProgram(const std::string& path) {
  pb::ProgramDef def;
  strategy::Diagnostics diagnostics;
  TD_RETURN_IF_ERROR(strategy::LoadTextProto(path, &def, nullptr, &diagnostics));
  return graph::FromProto(def, 1, path);
}

// Copies each tensor into the variable of the plan with the same name.
Status Feed(const exec::Plan& plan, const trainer::TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) {
    TD_ASSIGN_OR_RETURN(const Tensor to, plan.Get(name));
    if (to.desc() != tensor.desc()) {
      return InvalidArgument("\"%s\" is %s, expected %s", name, ToString(tensor.desc()),
                             ToString(to.desc()));
    }
    std::memcpy(to.data(), tensor.data(), tensor.bytes());
  }
  return OkStatus();
}

// Applies the amp pass. The custom list of 16-bit operators contains only the type of the first
// operator.
Status CastFirst(graph::Program& program) {
  DistributedStrategy strategy;
  strategy.set_amp(true);
  strategy.mutable_amp_configs()->add_custom_white_list(program.ops[0].type);
  std::vector<graph::ParamGrad> grads;
  return graph::PassPipeline(strategy, nullptr).Run(graph::PassStage::kForward, program, grads);
}

Status RunOne(const std::string& stem, int threads, bool half) {
  TD_ASSIGN_OR_RETURN(graph::Program program, ReadProgram(stem + ".pbtxt"));
  if (half) TD_RETURN_IF_ERROR(CastFirst(program));
  std::vector<graph::ParamGrad> grads;
  if (!program.loss.empty()) {
    TD_ASSIGN_OR_RETURN(grads, graph::AppendBackward(program, 1.0f));
    for (graph::ParamGrad& grad : grads) {
      TD_ASSIGN_OR_RETURN(grad, graph::Densify(program, grad));
    }
  }
  CpuDevice device;
  exec::Scope scope(device);
  TD_RETURN_IF_ERROR(exec::Initialize(program, 1, scope));
  exec::PlanOptions options;
  options.threads = threads;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kTemp))
    options.fetch.push_back(var->name);
  TD_ASSIGN_OR_RETURN(const auto plan,
                      exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options));
  TD_ASSIGN_OR_RETURN(const trainer::Safetensors in,
                      trainer::ReadSafetensors(stem + ".safetensors", device));
  TD_RETURN_IF_ERROR(Feed(*plan, in.tensors));
  TD_RETURN_IF_ERROR(exec::Executor(*plan).Run());
  trainer::TensorMap out;
  for (const std::string& name : options.fetch) {
    TD_ASSIGN_OR_RETURN(out[name], plan->Get(name));
  }
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kState))
    out[var->name] = *plan->Get(var->name);
  for (const graph::ParamGrad& grad : grads) {
    TD_ASSIGN_OR_RETURN(out[graph::GradName(grad.param)], plan->Get(grad.grad));
  }
  return trainer::WriteSafetensors(stem + ".out.safetensors", out, {});
}

int RunAll(const std::string& dir, bool half) {
  std::vector<std::string> stems;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    std::filesystem::path path = entry.path();
    if (path.extension() == ".pbtxt") stems.push_back(path.replace_extension().string());
  }
  std::sort(stems.begin(), stems.end());
  int failed = 0;
  for (size_t i = 0; i < stems.size(); ++i) {
    const Status status = RunOne(stems[i], 1 + static_cast<int>(i % 2), half);
    if (status.ok()) continue;
    std::cerr << stems[i] << ": " << status << "\n";
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const bool half = argc == 3 && std::string_view(argv[2]) == "--half";
  if (argc != (half ? 3 : 2)) {
    std::cerr << "usage: program_run DIR [--half]\n";
    return 2;
  }
  return tandem::RunAll(argv[1], half);
}
