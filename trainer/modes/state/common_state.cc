#include "trainer/modes/state/common_state.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "kernels/exec/commit.h"

namespace tandem::trainer {
namespace {

// Broadcasts the persistent variables of rank `root` to all ranks. Returns them in memory of
// `host`. Skips copies of tables, because the pservers store the tables.
StatusOr<TensorMap> BroadcastState(collective::Communicator& communicator,
                                   const graph::Program& program, const exec::Scope& scope,
                                   int root, Device& host) {
  TensorMap state;
  std::vector<std::shared_ptr<collective::Work>> works;
  const std::set<std::string> copies = exec::CopiedTables(program);
  Status status;
  for (const graph::Var& var : program.vars()) {
    if (var.kind != graph::VarKind::kParam && var.kind != graph::VarKind::kState) continue;
    if (copies.contains(var.name)) continue;
    const Tensor& own = *scope.Find(var.name);
    auto copy = Tensor::Make(own.desc(), host);
    status = copy.status();
    if (status.ok() && communicator.rank() == root) {
      status = scope.device().CopyToHost(copy->data(), own.data(), own.bytes());
    }
    if (!status.ok()) break;
    works.push_back(communicator.Broadcast(copy->data(), static_cast<size_t>(own.numel()),
                                           own.dtype(), root, {.what = var.name}));
    state[var.name] = *std::move(copy);
  }
  // Waits for all broadcasts, even after an error, because the broadcasts use the memory of
  // `state`. Each broadcast ends within its own deadline.
  for (const auto& work : works) {
    const Status ended = work->Wait(Time::max());
    if (status.ok()) status = ended;
  }
  TD_RETURN_IF_ERROR(status);
  return state;
}

}  // namespace

StatusOr<int64_t> SyncStateFromMostAdvanced(collective::Communicator& communicator,
                                            const graph::Program& program, exec::Scope& scope,
                                            int64_t mine, StepRollback* point, int64_t begin) {
  std::vector<int64_t> steps(static_cast<size_t>(communicator.size()));
  TD_RETURN_IF_ERROR(
      communicator.AllGather(&mine, steps.data(), 1, DType::kI64, {.what = "steps of all ranks"})
          ->Wait(Time::max()));
  const auto furthest = std::max_element(steps.begin(), steps.end());
  const int root = static_cast<int>(furthest - steps.begin());
  int64_t step = *furthest;
  if (step < 0) {  // all ranks are new, and root is 0
    step = begin;
    TD_RETURN_IF_ERROR(
        communicator.Broadcast(&step, 1, DType::kI64, root, {.what = "the first step"})
            ->Wait(Time::max()));
  } else if (mine == step && point != nullptr) {
    TD_RETURN_IF_ERROR(point->Restore());
  }
  const bool equal = std::all_of(steps.begin(), steps.end(), [&](int64_t s) { return s == step; });
  if (equal && *furthest >= 0) return step;

  CpuDevice host;
  TD_ASSIGN_OR_RETURN(const TensorMap state,
                      BroadcastState(communicator, program, scope, root, host));
  if (mine == step || communicator.rank() == root) return step;
  for (const auto& [name, tensor] : state) {
    if (point != nullptr && mine >= 0 && point->Own(name)) continue;
    TD_RETURN_IF_ERROR(
        scope.device().CopyFromHost(scope.Find(name)->data(), tensor.data(), tensor.bytes()));
  }
  if (point != nullptr) TD_RETURN_IF_ERROR(point->BeforeStep(step));
  return step;
}

}  // namespace tandem::trainer
