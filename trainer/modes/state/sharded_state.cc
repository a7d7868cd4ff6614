#include "trainer/modes/state/sharded_state.h"

#include <algorithm>

namespace tandem::trainer {
namespace {

Status Broadcast(collective::Communicator& communicator, const Tensor& tensor, int root,
                 const std::string& what, Time deadline) {
  return communicator
      .Broadcast(tensor.data(), static_cast<size_t>(tensor.numel()), tensor.dtype(), root,
                 {.what = what})
      ->Wait(deadline);
}

}  // namespace

StatusOr<ShardedState> ShardedState::Make(const graph::Program& program,
                                          const graph::OptimizerSpec& optimizer,
                                          const std::vector<graph::ParamGrad>& grads,
                                          const std::vector<int>& owners, int group) {
  graph::Program whole = program;
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(whole, optimizer, grads));
  ShardedState state;
  state.group_ = group;
  for (size_t i = 0; i < grads.size(); ++i) {
    TD_ASSIGN_OR_RETURN(const auto names, graph::OptimizerSlots(optimizer, grads[i].param));
    for (const std::string& name : names) {
      state.slots_.push_back({name, whole.FindVar(name)->desc, owners[i]});
    }
  }
  return state;
}

ShardedState ShardedState::OfParams(const graph::Program& program,
                                    const std::map<std::string, int>& owners, int group) {
  ShardedState state;
  state.group_ = group;
  for (const auto& [name, owner] : owners) {
    state.slots_.push_back({name, program.FindVar(name)->desc, owner});
  }
  return state;
}

bool ShardedState::Holds(const std::string& var) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.name == var; });
}

Status ShardedState::Scatter(collective::Communicator& communicator, const TensorMap& state,
                             exec::Scope& scope, Time deadline) const {
  if (slots_.empty()) return OkStatus();
  CpuDevice host;
  const auto n = static_cast<int64_t>(slots_.size());
  TD_ASSIGN_OR_RETURN(const Tensor there, Tensor::Make({DType::kU8, {n}}, host));
  for (size_t i = 0; i < slots_.size(); ++i) {
    there.span<uint8_t>()[i] = state.contains(slots_[i].name) ? 1 : 0;
  }
  TD_RETURN_IF_ERROR(Broadcast(communicator, there, 0, "the existing optimizer state", deadline));
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (there.span<uint8_t>()[i] == 0) continue;
    TD_ASSIGN_OR_RETURN(const Tensor copy, Tensor::Make(slot.desc, host));
    if (communicator.rank() == 0) {
      const Tensor& given = state.at(slot.name);
      if (given.desc() != slot.desc) {
        return FailedPrecondition(
            "variable \"%s\" is %s in the checkpoint, but the program needs %s [TD2105]", slot.name,
            ToString(given.desc()), ToString(slot.desc));
      }
      TD_RETURN_IF_ERROR(host.CopyFromHost(copy.data(), given.data(), copy.bytes()));
    }
    TD_RETURN_IF_ERROR(Broadcast(communicator, copy, 0, slot.name, deadline));
    if (OwnerFor(communicator.rank()) != slot.owner) continue;
    const Tensor* own = scope.Find(slot.name);
    if (own == nullptr)
      return Internal("the rank that owns variable \"%s\" does not have the value of this variable",
                      slot.name);
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(own->data(), copy.data(), copy.bytes()));
  }
  return OkStatus();
}

Status ShardedState::Gather(collective::Communicator& communicator, const exec::Scope& scope,
                            Device& host, TensorMap* state, Time deadline) const {
  for (const Slot& slot : slots_) {
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(slot.desc, host));
    if (communicator.rank() == slot.owner) {
      const Tensor* own = scope.Find(slot.name);
      if (own == nullptr)
        return Internal(
            "the rank that owns variable \"%s\" does not have the value of this variable",
            slot.name);
      TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), own->data(), copy.bytes()));
    }
    TD_RETURN_IF_ERROR(Broadcast(communicator, copy, slot.owner, slot.name, deadline));
    if (communicator.rank() == 0) (*state)[slot.name] = std::move(copy);
  }
  return OkStatus();
}

}  // namespace tandem::trainer
