#include "kernels/graph/passes/fuse_bn_act.h"

#include <optional>

#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

class BatchNormFuser {
 public:
  explicit BatchNormFuser(Program& program)
      : program_(program), uses_(FindUses(program)), gone_(program.ops.size()) {}

  StatusOr<PassOutcome> Run(bool with_addition);

 private:
  // Returns the index of an operator of type `type` if it is the only reader of `var`, an output of
  // operator `norm`.
  std::optional<size_t> Next(const std::string& var, const std::string& type) const;
  Status TryNorm(size_t norm, bool with_addition);
  Status Fuse(size_t norm, size_t relu, std::vector<std::string> z);

  Program& program_;
  const UseMap uses_;
  std::vector<bool> gone_;
  int64_t norms_ = 0, matched_ = 0;
};

std::optional<size_t> BatchNormFuser::Next(const std::string& var, const std::string& type) const {
  const auto it = uses_.find(var);
  if (it == uses_.end() || it->second.readers.size() != 1) return std::nullopt;
  const size_t reader = it->second.readers[0];
  const ops::Op& op = program_.ops[reader];
  if (gone_[reader] || op.type != type || !op.run_if.empty()) return std::nullopt;
  return ReadOnlyBy(program_, uses_, var, reader) ? std::optional(reader) : std::nullopt;
}

Status BatchNormFuser::Fuse(size_t norm, size_t relu, std::vector<std::string> z) {
  const ops::Op& before = program_.ops[norm];
  ops::Op op{.type = "fused_bn_add_activation",
             .inputs = before.inputs,
             .outputs = before.outputs,
             .attrs = before.attrs};
  op.inputs.push_back(std::move(z));
  op.outputs[0] = program_.ops[relu].outputs[0];
  gone_[norm] = true;
  ++matched_;
  return ReplaceOp(program_, relu, std::move(op));
}

Status BatchNormFuser::TryNorm(size_t norm, bool with_addition) {
  const std::string& y = program_.ops[norm].outputs[0][0];
  if (!with_addition) {
    const auto relu = Next(y, "relu");
    if (!relu || !CanMove(program_, norm, *relu)) return OkStatus();
    return Fuse(norm, *relu, {});
  }
  const auto add = Next(y, "elementwise_add");
  if (!add) return OkStatus();
  const ops::Op& addition = program_.ops[*add];
  const std::string &first = addition.inputs[0][0], &second = addition.inputs[1][0];
  const std::string z = first == y ? second : first;
  if (z == y || program_.FindVar(z)->desc != program_.FindVar(y)->desc) return OkStatus();
  const auto relu = Next(addition.outputs[0][0], "relu");
  if (!relu || !CanMove(program_, *add, *relu)) return OkStatus();
  gone_[*add] = true;
  return Fuse(norm, *relu, {z});
}

StatusOr<PassOutcome> BatchNormFuser::Run(bool with_addition) {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (gone_[i] || program_.ops[i].type != "batch_norm" || !program_.ops[i].run_if.empty()) {
      continue;
    }
    ++norms_;
    TD_RETURN_IF_ERROR(TryNorm(i, with_addition));
  }
  RemoveOps(program_, gone_);
  if (matched_ > 0) return PassOutcome{matched_, ""};
  if (norms_ == 0) return PassOutcome{0, "there is no batch_norm"};
  return PassOutcome{
      0, absl::StrFormat("none of %d batch_norm is followed by %s as the only reader of its output",
                         norms_, with_addition ? "an addition and relu" : "a relu")};
}

}  // namespace

StatusOr<PassOutcome> FuseBnAct(Program& program, PassContext&) {
  return BatchNormFuser(program).Run(false);
}

StatusOr<PassOutcome> FuseBnAddAct(Program& program, PassContext&) {
  return BatchNormFuser(program).Run(true);
}

}  // namespace tandem::graph
