#include "kernels/graph/distribute/distribute.h"

#include <map>

#include "common/base/require.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

std::string LayerOf(const std::string& param) { return param.substr(0, param.find('.')); }

// Groups the gradients of each layer, in the order of the layer's first gradient.
std::vector<std::vector<ParamGrad>> GroupByLayer(const std::vector<ParamGrad>& grads) {
  std::vector<std::vector<ParamGrad>> layers;
  std::map<std::string, size_t> index;
  for (const ParamGrad& pair : grads) {
    const auto [it, added] = index.try_emplace(LayerOf(pair.param), layers.size());
    if (added) layers.emplace_back();
    layers[it->second].push_back(pair);
  }
  return layers;
}

using Layers = std::vector<std::vector<ParamGrad>>;

double MiBOf(const Program& program, const std::vector<ParamGrad>& layer) {
  size_t bytes = 0;
  for (const ParamGrad& pair : layer) bytes += program.FindVar(pair.grad)->desc.bytes();
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

// Returns how many of the last entries of `layers` fit into `last_mb` MiB, at least one.
size_t LastLayers(const Program& program, const Layers& layers, double last_mb) {
  size_t count = 0;
  double mib = 0;
  while (count < layers.size()) {
    mib += MiBOf(program, layers[layers.size() - 1 - count]);
    if (count > 0 && mib > last_mb) break;
    ++count;
  }
  return count;
}

Layers Merge(const Program& program, const Layers& layers, const GroupRule& rule) {
  if (rule.group_mb <= 0) return layers;
  std::vector<Layers> groups;
  bool open = false;
  double mib = 0;
  int64_t gradients = 0;
  for (const auto& layer : layers) {
    if (!open) {
      groups.emplace_back();
      mib = 0;
      gradients = 0;
    }
    groups.back().push_back(layer);
    mib += MiBOf(program, layer);
    gradients += static_cast<int64_t>(layer.size());
    const bool crowded = rule.gradients_max > 1 && gradients > rule.gradients_max;
    open = !crowded && mib < rule.group_mb;
  }
  if (rule.last_mb > 0 && !groups.empty()) {
    Layers& before = groups.back();
    const auto cut =
        before.end() - static_cast<std::ptrdiff_t>(LastLayers(program, before, rule.last_mb));
    Layers last(cut, before.end());
    before.erase(cut, before.end());
    if (before.empty()) groups.pop_back();
    groups.push_back(std::move(last));
  }
  Layers merged;
  for (const Layers& group : groups) {
    auto& all = merged.emplace_back();
    for (const auto& layer : group) all.insert(all.end(), layer.begin(), layer.end());
  }
  return merged;
}

std::vector<std::vector<ParamGrad>> SplitByType(const Program& program,
                                                const std::vector<std::vector<ParamGrad>>& groups) {
  std::vector<std::vector<ParamGrad>> split;
  for (const auto& group : groups) {
    std::map<DType, size_t> index;
    for (const ParamGrad& pair : group) {
      const DType dtype = program.FindVar(pair.grad)->desc.dtype;
      TD_REQUIRE(IsHalf(dtype) || dtype == DType::kF32);
      const auto [it, added] = index.try_emplace(dtype, split.size());
      if (added) split.emplace_back();
      split[it->second].push_back(pair);
    }
  }
  return split;
}

std::vector<std::string> GradNames(const std::vector<ParamGrad>& pairs) {
  std::vector<std::string> names;
  for (const ParamGrad& pair : pairs) names.push_back(pair.grad);
  return names;
}

}  // namespace

std::vector<std::vector<ParamGrad>> GroupGradients(const Program& program,
                                                   const std::vector<ParamGrad>& grads,
                                                   const GroupRule& rule) {
  return SplitByType(program, Merge(program, GroupByLayer(grads), rule));
}

StatusOr<std::vector<ParamGrad>> DensifyAll(Program& program, const std::vector<ParamGrad>& grads) {
  std::vector<ParamGrad> dense;
  for (const ParamGrad& pair : grads) {
    TD_ASSIGN_OR_RETURN(dense.emplace_back(), Densify(program, pair));
  }
  return dense;
}

Status InsertAllReduce(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                       const std::string& run_if) {
  for (const auto& group : groups) {
    const std::vector<std::string> names = GradNames(group);
    TD_REQUIRE(!names.empty());
    TD_RETURN_IF_ERROR(InsertOp(program, BehindWritersOf(program, names),
                                {.type = "c_allreduce_sum",
                                 .inputs = {names},
                                 .outputs = {names},
                                 .role = ops::OpRole::kComm,
                                 .run_if = run_if}));
  }
  return OkStatus();
}

namespace {

// Appends operators that compute means under the condition `due`: means[i] becomes the mean of
// vars[i] over the ranks. All means use one communication. means[i] may be vars[i] itself.
Status AppendMeans(Program& program, const std::vector<std::string>& vars,
                   const std::vector<std::string>& means, const std::string& due, int ranks) {
  TD_REQUIRE(vars.size() == means.size() && ranks >= 1);
  for (size_t i = 0; i < vars.size(); ++i) {
    TD_RETURN_IF_ERROR(AppendOp(program, {.type = "scale",
                                          .inputs = {{vars[i]}},
                                          .outputs = {{means[i]}},
                                          .attrs = {{"scale", 1.0 / ranks}},
                                          .role = ops::OpRole::kOptimize,
                                          .run_if = due}));
  }
  return AppendOp(program, {.type = "c_allreduce_sum",
                            .inputs = {means},
                            .outputs = {means},
                            .role = ops::OpRole::kComm,
                            .run_if = due});
}

Status AddScalarState(Program& program, const std::string& name, double value, bool saved = true) {
  return program.AddVar({.name = name,
                         .kind = VarKind::kState,
                         .desc = {DType::kF32, {1}},
                         .init = {Init::kConstant, static_cast<float>(value)},
                         .saved = saved});
}

// Appends operators that compute the mean loss over the ranks, and from this loss the number of
// steps until the next average.
Status AppendAdaptiveSteps(Program& program, const AverageRule& rule, const std::string& due,
                           int ranks) {
  const std::string loss = program.FreshName("adaptive_localsgd@LOSS");
  TD_RETURN_IF_ERROR(AppendMeans(program, {program.loss}, {loss}, due, ranks));
  const std::string base_loss = program.FreshName("adaptive_localsgd@BASE_LOSS");
  const std::string base_rate = program.FreshName("adaptive_localsgd@BASE_LEARNING_RATE");
  TD_RETURN_IF_ERROR(AddScalarState(program, base_loss, 0));
  TD_RETURN_IF_ERROR(AddScalarState(program, base_rate, 0));
  return AppendOp(
      program,
      {.type = "adaptive_steps",
       .inputs = {{loss}, {kLearningRateVar}, {base_loss}, {base_rate}, {kAverageStepsVar}},
       .outputs = {{base_loss}, {base_rate}, {kAverageStepsVar}},
       .attrs = {{"init_k_steps", rule.k_steps}},
       .role = ops::OpRole::kOptimize,
       .run_if = due});
}

}  // namespace

Status AppendAverage(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                     const AverageRule& rule, int ranks) {
  TD_REQUIRE(rule.k_steps >= 1 && ranks >= 1);
  Period period = {rule.k_steps};
  if (rule.adaptive) {
    period.var = kAverageStepsVar;
    TD_RETURN_IF_ERROR(AddScalarState(program, period.var, static_cast<double>(rule.k_steps)));
  }
  TD_ASSIGN_OR_RETURN(const std::string due, InsertEveryNth(program, 0, "localsgd", period,
                                                            rule.begin_step, /*saved=*/true));
  for (const auto& group : groups) {
    std::vector<std::string> params;
    for (const ParamGrad& pair : group) params.push_back(pair.param);
    TD_RETURN_IF_ERROR(AppendMeans(program, params, params, due, ranks));
  }
  return rule.adaptive ? AppendAdaptiveSteps(program, rule, due, ranks) : OkStatus();
}

Status WeightSteps(Program& program) {
  TD_RETURN_IF_ERROR(AddScalarState(program, kStepWeightVar, 1, /*saved=*/false));
  return MultiplyLossGradient(program, kStepWeightVar);
}

Status AppendPushPull(Program& program, const std::vector<ParamGrad>& grads) {
  if (grads.empty()) return OkStatus();
  const std::vector<std::string> names = GradNames(grads);
  std::vector<std::string> params;
  for (const ParamGrad& pair : grads) params.push_back(pair.param);
  // Backward reads the parameters. Therefore the operator that receives them comes after backward.
  return AppendOp(
      program,
      {.type = "push_pull", .inputs = {names}, .outputs = {params}, .role = ops::OpRole::kComm});
}

Status AppendGeoExchange(Program& program, const std::vector<std::string>& params) {
  return AppendOp(program, {.type = "geo_exchange",
                            .inputs = {params},
                            .outputs = {params},
                            .role = ops::OpRole::kComm});
}

}  // namespace tandem::graph
