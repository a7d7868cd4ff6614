// A program: variables, and operators in an order in which they may run. The model zoo builds
// programs (kernels/graph/builder.h), and program_io.h reads them from text. Autodiff, the
// optimizer and passes extend a program. kernels/exec makes a plan from the program.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/require.h"
#include "common/base/status.h"
#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem::graph {

// The kinds of variables. kRemote is a parameter that is stored elsewhere: on pservers
// (distribute/distribute.h) or on another rank (distribute/shard_params.h). A kRemote variable has
// no memory on this rank, but operators use its shape.
enum class VarKind : uint8_t { kTemp, kData, kParam, kState, kRemote };

// The initial value of a kParam or kState variable (see InitDef in proto/program.proto).
struct Init {
  enum Kind : uint8_t { kConstant, kUniform, kNormal, kXavierUniform, kMsraNormal };
  Kind kind = kConstant;
  float a = 0;  // kConstant: value; kUniform: lower bound; kNormal: mean
  float b = 0;  // kUniform: upper bound; kNormal: standard deviation
};

struct Var {
  std::string name;
  VarKind kind = VarKind::kTemp;
  TensorDesc desc;             // type and shape, which are inferred for kTemp
  bool batch_leading = false;  // for kData: true if the first dimension is the batch
  Init init;
  // For kState: true if checkpoints contain the variable. If false, every start sets the variable
  // to `init`.
  bool saved = true;
};

class Program {
 public:
  std::string name;
  std::string loss;                  // name of the variable to minimise; empty: none
  std::vector<std::string> metrics;  // names of variables that are printed with the loss
  std::vector<ops::Op> ops;

  // Declares a variable. ALREADY_EXISTS: another variable has its name. INVALID_ARGUMENT: the name
  // does not match [A-Za-z0-9._@/-]{1,200}.
  Status AddVar(Var var);
  Var* FindVar(std::string_view name);
  const Var* FindVar(std::string_view name) const;
  // The variables in order of declaration. Their addresses are stable.
  const std::deque<Var>& vars() const { return vars_; }
  std::deque<Var>& vars() { return vars_; }
  std::vector<const Var*> VarsOf(VarKind kind) const;

  // Returns the first of `base`, base_1, base_2, ... that is not the name of a variable.
  std::string FreshName(const std::string& base) const;

 private:
  std::deque<Var> vars_;
  std::unordered_map<std::string, size_t> index_;
};

// Appends `op`. First checks the operator against its definition: slots, attributes, attribute
// types, known variables. Infers the outputs and declares new outputs as kTemp variables. An output
// that is already declared must have the inferred description.
Status AppendOp(Program& program, ops::Op op);

// Appends `op` like AppendOp. If an output is an already declared temporary, its description
// becomes the inferred one.
Status AppendOpReinferred(Program& program, ops::Op op);

// Sets the batch dimension of every kData variable and infers all shapes. REQUIRES: batch >= 1.
Status BindBatch(Program& program, int64_t batch);

// Checks a program. Fails for everything that AppendOp rejects, and for reads of variables that no
// operator wrote before. Also fails if a variable is written only under a condition (Op::run_if)
// and an operator without this condition reads it.
Status Verify(const Program& program);

// Calls fn(name) for every variable that `op` reads: present inputs, and the condition.
template <typename Fn>
void ForEachRead(const ops::Op& op, Fn fn) {
  for (const auto& slot : op.inputs) {
    for (const std::string& name : slot) {
      if (!name.empty()) fn(name);
    }
  }
  if (!op.run_if.empty()) fn(op.run_if);
}

// Calls fn(name) for every variable whose memory `op` reads. Inputs with SlotDef::shape_only are
// skipped. REQUIRES: the type of `op` is known.
template <typename Fn>
void ForEachMemoryRead(const ops::Op& op, Fn fn) {
  const ops::OpDef* const def = ops::FindOp(op.type);
  TD_REQUIRE(def != nullptr && op.inputs.size() <= def->inputs.size());
  for (size_t s = 0; s < op.inputs.size(); ++s) {
    if (def->inputs[s].shape_only) continue;
    for (const std::string& name : op.inputs[s]) {
      if (!name.empty()) fn(name);
    }
  }
  if (!op.run_if.empty()) fn(op.run_if);
}

// Calls fn(name) for every variable that `op` writes.
template <typename Fn>
void ForEachWrite(const ops::Op& op, Fn fn) {
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) {
      if (!name.empty()) fn(name);
    }
  }
}

// Returns the program as text, with one line per operator: "conv2d(Input=img, Filter=conv_0.w) ->
// Output=conv_0.out [64,6,28,28]". The text " if x" follows if the operator has condition x. The
// body of an operator is indented below it.
std::string Dump(const Program& program);

}  // namespace tandem::graph
