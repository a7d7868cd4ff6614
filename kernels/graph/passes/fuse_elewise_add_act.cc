#include "kernels/graph/passes/fuse_elewise_add_act.h"

#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/fused/fused_elemwise_activation.h"

namespace tandem::graph {
namespace {

class AddActFuser {
 public:
  explicit AddActFuser(Program& program)
      : program_(program), uses_(FindUses(program)), gone_(program.ops.size()) {}

  StatusOr<PassOutcome> Run();

 private:
  // Returns true for an activation that can be fused. An activation with a bias cannot, because the
  // fused operator has no bias.
  static bool IsActivation(const ops::Op& op);
  Status Fuse(size_t add, size_t act, bool act_first);
  Status TryAfter(size_t add);
  Status TryBefore(size_t add);

  Program& program_;
  const UseMap uses_;
  std::vector<bool> gone_;
  int64_t adds_ = 0, matched_ = 0;
};

bool AddActFuser::IsActivation(const ops::Op& op) {
  if (ops::FunctorsOf(op.type, false).empty() || !op.run_if.empty()) return false;
  const auto bias = op.attrs.find("bias");
  return bias == op.attrs.end() || std::get<double>(bias->second) == 0.0;
}

Status AddActFuser::Fuse(size_t add, size_t act, bool act_first) {
  const ops::Op &addition = program_.ops[add], &activation = program_.ops[act];
  const size_t last = act_first ? add : act;
  ops::Op op{.type = "fused_elemwise_activation",
             .inputs = addition.inputs,
             .outputs = program_.ops[last].outputs,
             .attrs = addition.attrs};
  if (act_first) op.inputs[1] = activation.inputs[0];
  op.attrs["functors"] = ops::FunctorsOf(activation.type, act_first);
  if (const auto scale = activation.attrs.find("scale"); scale != activation.attrs.end()) {
    op.attrs["scale"] = scale->second;
  }
  gone_[act_first ? act : add] = true;
  gone_[last] = false;
  ++matched_;
  return ReplaceOp(program_, last, std::move(op));
}

// Fuses act(x + y) if the activation is the only reader of the sum.
Status AddActFuser::TryAfter(size_t add) {
  const std::string& sum = program_.ops[add].outputs[0][0];
  const auto it = uses_.find(sum);
  if (it == uses_.end() || it->second.readers.size() != 1) return OkStatus();
  const size_t act = it->second.readers[0];
  if (gone_[act] || !IsActivation(program_.ops[act]) || !ReadOnlyBy(program_, uses_, sum, act))
    return OkStatus();
  return Fuse(add, act, false);
}

// Fuses x + act(y) if the addition is the only reader of act(y).
Status AddActFuser::TryBefore(size_t add) {
  const std::string y = program_.ops[add].inputs[1][0];
  const auto it = uses_.find(y);
  if (it == uses_.end() || it->second.writers.size() != 1) return OkStatus();
  const size_t act = it->second.writers[0];
  if (gone_[act] || !IsActivation(program_.ops[act]) || !ReadOnlyBy(program_, uses_, y, add))
    return OkStatus();
  return Fuse(add, act, true);
}

StatusOr<PassOutcome> AddActFuser::Run() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (program_.ops[i].type != "elementwise_add" || !program_.ops[i].run_if.empty()) continue;
    ++adds_;
    TD_RETURN_IF_ERROR(TryAfter(i));
    if (!gone_[i] && program_.ops[i].type == "elementwise_add") {
      TD_RETURN_IF_ERROR(TryBefore(i));
    }
  }
  RemoveOps(program_, gone_);
  PassOutcome outcome{matched_, ""};
  if (matched_ == 0) {
    outcome.reason =
        adds_ == 0
            ? "there is no elementwise_add"
            : absl::StrFormat(
                  "none of %d elementwise_add is next to an activation as the only reader", adds_);
  }
  return outcome;
}

}  // namespace

StatusOr<PassOutcome> FuseElewiseAddAct(Program& program, PassContext&) {
  return AddActFuser(program).Run();
}

}  // namespace tandem::graph
