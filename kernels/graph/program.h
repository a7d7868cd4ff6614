// A program: variables and operators in the order in which they may run. Built by the model zoo
// (kernels/graph/builder.h) or read from text (program_io.h); autodiff, the optimizer and passes
// extend it; kernels/exec turns it into a plan.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// kRemote: a parameter that others keep, pservers (passes/distribute.h) or another rank
// (passes/shard_params.h); it has no memory here, and operators use its shape.
enum class VarKind : uint8_t { kTemp, kData, kParam, kState, kRemote };

// The first value of a kParam or kState (see InitDef in proto/program.proto).
struct Init {
  enum Kind : uint8_t { kConstant, kUniform, kNormal, kXavierUniform, kMsraNormal };
  Kind kind = kConstant;
  float a = 0;  // value | low | mean
  float b = 0;  // - | high | stddev
};

struct Var {
  std::string name;
  VarKind kind = VarKind::kTemp;
  TensorDesc desc;             // kTemp: as inferred
  bool batch_leading = false;  // kData whose first dimension is the batch
  Init init;
  bool saved = true;  // kState that checkpoints hold; else it begins with `init` again
};

class Program {
 public:
  std::string name;
  std::string loss;                  // variable to minimise; empty in programs without one
  std::vector<std::string> metrics;  // printed beside the loss
  std::vector<Op> ops;

  // ALREADY_EXISTS when the name is taken, INVALID_ARGUMENT when it is not [A-Za-z0-9._@/-]{1,200}.
  Status AddVar(Var var);
  Var* FindVar(std::string_view name);
  const Var* FindVar(std::string_view name) const;
  // In order of declaration; addresses are stable.
  const std::deque<Var>& vars() const { return vars_; }
  std::deque<Var>& vars() { return vars_; }
  std::vector<const Var*> VarsOf(VarKind kind) const;

  // A name that no variable has yet: `base`, or base_1, base_2, ...
  std::string FreshName(const std::string& base) const;

 private:
  std::deque<Var> vars_;
  std::unordered_map<std::string, size_t> index_;
};

// Checks `op` against its definition (slots, attributes, types of attributes, known variables),
// infers its outputs and declares those that are new kTemp variables; then appends it.
// An output that is already declared must have the inferred description.
Status AppendOp(Program& program, Op op);

// The same, but temporaries that are declared get the description that is inferred now.
Status AppendOpReinferred(Program& program, Op op);

// Binds the batch dimension of every kData variable and infers all shapes again.
// REQUIRES: batch >= 1.
Status BindBatch(Program& program, int64_t batch);

// Everything AppendOp would refuse, reads of variables that nothing wrote, and reads of what is
// written under a condition (Op::run_if) alone by operators that have another one or none.
Status Verify(const Program& program);

// Calls fn(name) for every variable that `op` reads: inputs that are there, and its condition.
template <typename Fn>
void ForEachRead(const Op& op, Fn fn) {
  for (const auto& slot : op.inputs) {
    for (const std::string& name : slot) {
      if (!name.empty()) fn(name);
    }
  }
  if (!op.run_if.empty()) fn(op.run_if);
}

// Calls fn(name) for every variable whose memory `op` reads: ForEachRead without the inputs of
// which the description alone is used (SlotDef::shape_only). REQUIRES: a known operator.
template <typename Fn>
void ForEachMemoryRead(const Op& op, Fn fn) {
  const OpDef& def = *FindOp(op.type);
  for (size_t s = 0; s < op.inputs.size(); ++s) {
    if (def.inputs[s].shape_only) continue;
    for (const std::string& name : op.inputs[s]) {
      if (!name.empty()) fn(name);
    }
  }
  if (!op.run_if.empty()) fn(op.run_if);
}

// Calls fn(name) for every variable that `op` writes.
template <typename Fn>
void ForEachWrite(const Op& op, Fn fn) {
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) {
      if (!name.empty()) fn(name);
    }
  }
}

// One line per operator: "conv2d(Input=img, Filter=conv_0.w) -> Output=conv_0.out  [64,6,28,28]",
// with " if x" when it has a condition, and its body indented below.
std::string Dump(const Program& program);

}  // namespace tandem
