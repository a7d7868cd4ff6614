#include "kernels/graph/distribute/half_communication.h"

#include <map>
#include <utility>

#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

class Halver {
 public:
  explicit Halver(Program& program) : program_(program), before_(std::move(program.ops)) {
    program_.ops.clear();
  }

  // Changes the program. After an error the program is unusable.
  Status Run() {
    for (ops::Op& op : before_) {
      for (const auto& slots : {op.inputs, op.outputs}) {
        for (const auto& slot : slots) {
          for (const std::string& var : slot) TD_RETURN_IF_ERROR(Widen(var));
        }
      }
      const bool reduces = op.type == "c_allreduce_sum" || op.type == "c_reduce_sum";
      if (reduces && op.role == ops::OpRole::kComm) TD_RETURN_IF_ERROR(Narrow(op));
      TD_RETURN_IF_ERROR(AppendOp(program_, std::move(op)));
    }
    return OkStatus();
  }

 private:
  struct Half {
    std::string var, run_if;
  };

  Status Cast(const std::string& from, const std::string& to, const char* dtype, ops::OpRole role,
              const std::string& run_if) {
    return AppendOp(program_, {.type = "cast",
                               .inputs = {{from}},
                               .outputs = {{to}},
                               .attrs = {{"out_dtype", std::string(dtype)}},
                               .role = role,
                               .run_if = run_if});
  }

  // All gradients of one reduction must have the same element type. Therefore Narrow converts
  // either all gradients of the reduction to f16, or no gradient.
  Status Narrow(ops::Op& op) {
    for (const std::string& grad : op.inputs[0]) {
      if (program_.FindVar(grad)->desc.dtype != DType::kF32) return OkStatus();
    }
    for (std::string& grad : op.inputs[0]) {
      const std::string half = program_.FreshName(grad + "@HALF");
      TD_RETURN_IF_ERROR(Cast(grad, half, "f16", ops::OpRole::kBackward, op.run_if));
      halves_[grad] = {half, op.run_if};
      grad = half;
    }
    op.outputs[0] = op.inputs[0];
    return OkStatus();
  }

  Status Widen(const std::string& var) {
    const auto found = halves_.find(var);
    if (found == halves_.end()) return OkStatus();
    const Half half = std::move(found->second);
    halves_.erase(found);
    return Cast(half.var, var, "f32", ops::OpRole::kOptimize, half.run_if);
  }

  Program& program_;
  std::vector<ops::Op> before_;
  // By name of the f32 gradient: its f16 copy that is being reduced.
  std::map<std::string, Half> halves_;
};

}  // namespace

Status HalveCommunication(Program& program) { return Halver(program).Run(); }

}  // namespace tandem::graph
