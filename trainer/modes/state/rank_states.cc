#include "trainer/modes/state/rank_states.h"

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "kernels/graph/optimizer.h"

namespace tandem::trainer {
namespace {

std::string NameOf(const std::string& var, int rank) { return absl::StrCat(var, "@rank", rank); }

size_t Count(const Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

// Returns the number of ranks that `state` has, of `ranks` ranks. Its variables are `vars`.
// FAILED_PRECONDITION: a variable has another shape or type.
StatusOr<int64_t> RanksIn(const TensorMap& state, const std::vector<const graph::Var*>& vars,
                          int ranks) {
  int r = 1;
  for (; r < ranks; ++r) {
    for (const graph::Var* var : vars) {
      const auto found = state.find(NameOf(var->name, r));
      if (found == state.end()) return r;
      if (found->second.desc() == var->desc) continue;
      return FailedPrecondition(
          "variable \"%s\" is %s in the checkpoint, but the program needs %s [TD2105]",
          found->first, ToString(found->second.desc()), ToString(var->desc));
    }
  }
  return r;
}

}  // namespace

std::vector<const graph::Var*> RankStates::Differing(const graph::Program& program) const {
  std::vector<const graph::Var*> vars;
  for (const graph::Var& var : program.vars()) {
    const bool state = var.kind == graph::VarKind::kState && var.saved &&
                       var.name != graph::kLearningRateVar && !common_.contains(var.name);
    if (state || var.kind == graph::VarKind::kParam) vars.push_back(&var);
  }
  return vars;
}

Status RankStates::Gather(collective::Communicator& communicator, const graph::Program& program,
                          const exec::Scope& scope, Device& host, TensorMap* state,
                          Time deadline) const {
  const std::vector<const graph::Var*> vars = Differing(program);
  const int rank = communicator.rank();
  for (const graph::Var* var : vars) {
    const Tensor* own = scope.Find(var->name);
    TD_REQUIRE(own != nullptr);
    for (int r = 1; r < communicator.size(); ++r) {
      if (rank != 0 && rank != r) continue;
      TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(own->desc(), host));
      const std::string name = NameOf(var->name, r);
      if (rank == 0) {
        TD_RETURN_IF_ERROR(
            communicator.Recv(copy.data(), Count(copy), copy.dtype(), r, {.what = name})
                ->Wait(deadline));
        (*state)[name] = std::move(copy);
        continue;
      }
      TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), own->data(), copy.bytes()));
      TD_RETURN_IF_ERROR(
          communicator.Send(copy.data(), Count(copy), copy.dtype(), 0, {.what = name})
              ->Wait(deadline));
    }
  }
  return OkStatus();
}

Status RankStates::Scatter(collective::Communicator& communicator, const graph::Program& program,
                           const TensorMap& state, exec::Scope& scope, Time deadline) const {
  const std::vector<const graph::Var*> vars = Differing(program);
  const int rank = communicator.rank();
  // Rank 0 sends 0 if its checkpoint does not fit the program, so that no rank waits for values.
  int64_t ranks = 0;
  Status fits;
  if (rank == 0) {
    const StatusOr<int64_t> found = RanksIn(state, vars, communicator.size());
    fits = found.status();
    if (found.ok()) ranks = *found;
  }
  TD_RETURN_IF_ERROR(
      communicator.Broadcast(&ranks, 1, DType::kI64, 0, {.what = "ranks of the checkpoint"})
          ->Wait(deadline));
  TD_RETURN_IF_ERROR(fits);
  CpuDevice host;
  for (const graph::Var* var : vars) {
    const Tensor* own = scope.Find(var->name);
    TD_REQUIRE(own != nullptr);
    for (int r = 1; r < static_cast<int>(ranks); ++r) {
      const std::string name = NameOf(var->name, r);
      if (rank == 0) {
        const Tensor& given = state.at(name);
        TD_RETURN_IF_ERROR(
            communicator.Send(given.data(), Count(given), given.dtype(), r, {.what = name})
                ->Wait(deadline));
      } else if (rank == r) {
        TD_ASSIGN_OR_RETURN(const Tensor copy, Tensor::Make(own->desc(), host));
        TD_RETURN_IF_ERROR(
            communicator.Recv(copy.data(), Count(copy), copy.dtype(), 0, {.what = name})
                ->Wait(deadline));
        TD_RETURN_IF_ERROR(scope.device().CopyFromHost(own->data(), copy.data(), copy.bytes()));
      }
    }
  }
  return OkStatus();
}

}  // namespace tandem::trainer
