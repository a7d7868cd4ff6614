#include "trainer/modes/collective_program.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "kernels/graph/distribute/half_communication.h"
#include "kernels/graph/distribute/sync_batch_norm.h"
#include "kernels/graph/distribute/update_by_owner.h"
#include "trainer/modes/gradient_groups.h"

namespace tandem::trainer {

Status CollectiveProgram::Distribute(graph::Program& program,
                                     const std::vector<graph::ParamGrad>& given) {
  TD_RETURN_IF_ERROR(DistributeGradients(program, given));
  const bool halve = options_.common.half_communication && options_.between_devices;
  return halve ? graph::HalveCommunication(program) : OkStatus();
}

Status CollectiveProgram::DistributeGradients(graph::Program& program,
                                              const std::vector<graph::ParamGrad>& given) {
  TD_ASSIGN_OR_RETURN(const std::vector<graph::ParamGrad> grads,
                      DensifyGradients(program, given, options_.common));
  if (options_.sync_batch_norm) {
    TD_RETURN_IF_ERROR(
        graph::SyncBatchNorm(program, options_.common.rank, options_.common.ranks).status());
  }
  if (options_.update_by_owner || options_.shard) return DistributeByOwner(program, grads);
  if (options_.dgc) return DistributeCompressed(program, grads);
  if (options_.fragments) return DistributeFragments(program, grads);
  const auto groups = Grouped(program, grads);
  if (!options_.average) TD_RETURN_IF_ERROR(graph::InsertAllReduce(program, groups));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, grads));
  if (!options_.average) return OkStatus();
  return graph::AppendAverage(program, groups, *options_.average, options_.common.ranks);
}

std::vector<std::vector<graph::ParamGrad>> CollectiveProgram::Grouped(
    const graph::Program& program, const std::vector<graph::ParamGrad>& grads) const {
  return GroupedGradients(program, grads, options_.common);
}

Status CollectiveProgram::DistributeFragments(graph::Program& program,
                                              const std::vector<graph::ParamGrad>& grads) {
  const graph::FragmentRule& rule = *options_.fragments;
  if (rule.delay > 0 && options_.between_devices) {
    return Unimplemented(
        "localsgd_configs.delay is not implemented between CUDA places [TD1109]; hint: use "
        "--place=cpu, or set delay to 0");
  }
  TD_ASSIGN_OR_RETURN(const auto fragments,
                      graph::SplitIntoFragments(program, grads, rule.fragments));
  std::vector<std::vector<std::vector<graph::ParamGrad>>> groups;
  std::vector<std::string> sizes;
  for (const auto& fragment : fragments) {
    groups.push_back(Grouped(program, fragment));
    size_t bytes = 0;
    for (const graph::ParamGrad& pair : fragment)
      bytes += program.FindVar(pair.param)->desc.bytes();
    sizes.push_back(absl::StrFormat("%.2f", static_cast<double>(bytes) / 1e6));
  }
  if (options_.common.leader()) {
    LOG(INFO) << absl::StrFormat(
        "localsgd: fragments of %s MB; a fragment is averaged every %d steps, and the ranks apply "
        "the result %d steps later",
        absl::StrJoin(sizes, ", "), rule.k_steps, rule.delay);
  }
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, grads));
  TD_ASSIGN_OR_RETURN(auto vars,
                      graph::AppendFragments(program, groups, rule, options_.common.ranks));
  fragments_.emplace(rule, std::move(vars));
  return OkStatus();
}

Status CollectiveProgram::DistributeCompressed(graph::Program& program,
                                               const std::vector<graph::ParamGrad>& grads) {
  std::vector<graph::ParamGrad> large, small;
  for (const graph::ParamGrad& pair : grads) {
    (graph::IsCompressed(program, pair) ? large : small).push_back(pair);
  }
  if (options_.common.leader()) {
    LOG(INFO) << absl::StrFormat(
        "dgc: %d of %d parameters have at least %d elements and are compressed", large.size(),
        grads.size(), graph::kDgcElementsMin);
  }
  TD_RETURN_IF_ERROR(graph::InsertAllReduce(program, Grouped(program, small)));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, small));
  if (large.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(auto slots, graph::AppendCompressed(program, options_.common.optimizer,
                                                          Grouped(program, large), *options_.dgc,
                                                          options_.common.ranks));
  dgc_.emplace(*options_.dgc, std::move(slots));
  return OkStatus();
}

Status CollectiveProgram::DistributeByOwner(graph::Program& program,
                                            const std::vector<graph::ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(const graph::UpdateScope reach, graph::ReachOf(options_.common.optimizer));
  if (reach == graph::UpdateScope::kAll) {
    return Unimplemented(
        "%s with clip_global_norm is not implemented, because no rank has all gradients [TD1109]; "
        "hint: use clip_norm",
        options_.shard ? "sharding" : "reduce_strategy Reduce");
  }
  if (options_.shard && options_.shard->group > 0 && options_.between_devices) {
    return Unimplemented(
        "sharding with hybrid_dp is not implemented between CUDA places [TD1109]; hint: use "
        "--place=cpu");
  }
  std::vector<int> owners = graph::OwnersOf(program, grads, options_.common.ranks);
  if (options_.shard) {
    owners_ = graph::OwnersInOrder(program, group());
    params_ = ShardedState::OfParams(program, owners_, group());
    for (size_t i = 0; i < grads.size(); ++i) owners[i] = owners_.at(grads[i].param);
  }
  DCHECK_EQ(owners.size(), grads.size());
  std::vector<graph::ParamGrad> own;
  std::vector<std::vector<graph::ParamGrad>> single;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (owners[i] == number()) own.push_back(grads[i]);
    single.push_back({grads[i]});
  }
  TD_ASSIGN_OR_RETURN(
      slots_, ShardedState::Make(program, options_.common.optimizer, grads, owners, group()));
  TD_RETURN_IF_ERROR(
      graph::InsertReduce(program, graph::SplitByOwner(Grouped(program, grads), grads, owners),
                          options_.shard ? options_.shard->group : 0));
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, own));
  if (options_.shard) return OkStatus();  // SplitParams inserts the broadcasts of parameters
  if (options_.fuse_broadcast) single = {grads};
  return graph::AppendBroadcast(program, graph::SplitByOwner(single, grads, owners));
}

Status CollectiveProgram::SplitParams(graph::Program& program) {
  if (!options_.shard) return OkStatus();
  const ShardOptions& shard = *options_.shard;
  return ShardParams(program, {number(), shard.group, owners_, shard.segment_bytes}).status();
}

}  // namespace tandem::trainer
