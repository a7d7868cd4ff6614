#include "kernels/graph/distribute/fragments.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

class FragmentAverager {
 public:
  FragmentAverager(Program& program, const FragmentRule& rule, int ranks)
      : program_(program), rule_(rule), ranks_(ranks) {}

  Status AddConditions();
  Status AddStates(const std::string& param);
  Status AppendBegin(const std::vector<ParamGrad>& group, int p);
  Status AppendEnd(const std::vector<ParamGrad>& group, int p);
  FragmentVars TakeVars() { return std::move(vars_); }

 private:
  static std::string MeanOf(const std::string& param) { return param + "@mean"; }
  static std::string OuterOf(const std::string& param) { return param + "@outer"; }
  static std::string VelocityOf(const std::string& param) { return param + "@outer_velocity"; }

  Status AddState(const std::string& name, const TensorDesc& desc, bool saved, float value = 0);
  Status Append(const std::string& type, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::string& run_if,
                ops::AttrMap attrs = {});
  Status Copy(const std::string& from, const std::string& to, const std::string& run_if) {
    return Append("sum", {from}, {to}, run_if);
  }
  Status AppendWarm(const std::string& param);
  Status AppendOuterStep(const std::string& param, const std::string& ends);
  Status AppendMerge(const std::string& param, const std::string& result, const std::string& ends);
  Status AppendComm(const char* type, const std::vector<std::string>& vars,
                    const std::string& run_if) {
    return AppendOp(program_, {.type = type,
                               .inputs = {vars},
                               .outputs = {vars},
                               .role = ops::OpRole::kComm,
                               .run_if = run_if});
  }

  static constexpr const char* kOuterRateVar = "localsgd@OUTER_LEARNING_RATE";

  Program& program_;
  const FragmentRule& rule_;
  const int ranks_;
  FragmentVars vars_;
};

Status FragmentAverager::AddState(const std::string& name, const TensorDesc& desc, bool saved,
                                  float value) {
  vars_.common.push_back(name);
  return program_.AddVar({.name = name,
                          .kind = VarKind::kState,
                          .desc = desc,
                          .init = {Init::kConstant, value},
                          .saved = saved});
}

Status FragmentAverager::Append(const std::string& type, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& outputs, const std::string& run_if,
                                ops::AttrMap attrs) {
  ops::Op op = {
      .type = type, .attrs = std::move(attrs), .role = ops::OpRole::kOptimize, .run_if = run_if};
  if (type == "sum") {
    op.inputs = {inputs};
  } else {
    for (const std::string& input : inputs) op.inputs.push_back({input});
  }
  for (const std::string& output : outputs) op.outputs.push_back({output});
  return AppendOp(program_, std::move(op));
}

Status FragmentAverager::AddConditions() {
  const TensorDesc scalar = {DType::kF32, {1}};
  TD_RETURN_IF_ERROR(AddState(kFragmentsWarmVar, scalar, false));
  for (int p = 0; p < rule_.fragments; ++p) {
    TD_RETURN_IF_ERROR(AddState(FragmentBeginsVar(p), scalar, false));
    TD_RETURN_IF_ERROR(AddState(FragmentEndsVar(p), scalar, false));
    if (rule_.delay > 0) TD_RETURN_IF_ERROR(AddState(FragmentPendingVar(p), scalar, true));
  }
  if (!rule_.nesterov) return OkStatus();
  return AddState(kOuterRateVar, scalar, false, static_cast<float>(rule_.learning_rate));
}

// The means are state, because the operators that write and read them have different conditions.
// With `delay`, a mean exists from one step to a later one, so checkpoints contain the means.
Status FragmentAverager::AddStates(const std::string& param) {
  const TensorDesc desc = program_.FindVar(param)->desc;
  TD_REQUIRE(desc.dtype == DType::kF32);
  TD_RETURN_IF_ERROR(AddState(MeanOf(param), desc, rule_.delay > 0));
  if (!rule_.nesterov) return OkStatus();
  TD_RETURN_IF_ERROR(AddState(OuterOf(param), desc, true));
  TD_RETURN_IF_ERROR(AddState(VelocityOf(param), desc, true));
  vars_.outers.push_back({param, OuterOf(param)});
  return OkStatus();
}

Status FragmentAverager::AppendBegin(const std::vector<ParamGrad>& group, int p) {
  const std::string begins = FragmentBeginsVar(p);
  std::vector<std::string> means;
  for (const ParamGrad& pair : group) {
    means.push_back(MeanOf(pair.param));
    TD_RETURN_IF_ERROR(
        Append("scale", {pair.param}, {means.back()}, begins, {{"scale", 1.0 / ranks_}}));
  }
  return AppendComm(rule_.delay > 0 ? "c_allreduce_begin" : "c_allreduce_sum", means, begins);
}

Status FragmentAverager::AppendWarm(const std::string& param) {
  if (rule_.nesterov) {
    TD_RETURN_IF_ERROR(Copy(MeanOf(param), OuterOf(param), kFragmentsWarmVar));
  }
  return Copy(MeanOf(param), param, kFragmentsWarmVar);
}

Status FragmentAverager::AppendOuterStep(const std::string& param, const std::string& ends) {
  const std::string outer = OuterOf(param), velocity = VelocityOf(param);
  const std::string gradient = program_.FreshName(param + "@PSEUDO_GRADIENT");
  TD_RETURN_IF_ERROR(Append("elementwise_sub", {outer, MeanOf(param)}, {gradient}, ends));
  return AppendOp(program_, {.type = "momentum",
                             .inputs = {{outer}, {gradient}, {velocity}, {kOuterRateVar}, {}},
                             .outputs = {{outer}, {velocity}},
                             .attrs = {{"mu", rule_.momentum}, {"use_nesterov", true}},
                             .role = ops::OpRole::kOptimize,
                             .run_if = ends});
}

Status FragmentAverager::AppendMerge(const std::string& param, const std::string& result,
                                     const std::string& ends) {
  if (rule_.merge_factor == 0) return Copy(result, param, ends);
  const std::string own = program_.FreshName(param + "@OWN_SHARE");
  const std::string common = program_.FreshName(param + "@COMMON_SHARE");
  TD_RETURN_IF_ERROR(Append("scale", {param}, {own}, ends, {{"scale", rule_.merge_factor}}));
  TD_RETURN_IF_ERROR(
      Append("scale", {result}, {common}, ends, {{"scale", 1.0 - rule_.merge_factor}}));
  return Append("sum", {own, common}, {param}, ends);
}

Status FragmentAverager::AppendEnd(const std::vector<ParamGrad>& group, int p) {
  const std::string ends = FragmentEndsVar(p);
  const bool warms = rule_.begin_step > 0;
  if (rule_.delay > 0) {
    std::vector<std::string> means;
    for (const ParamGrad& pair : group) means.push_back(MeanOf(pair.param));
    if (warms) TD_RETURN_IF_ERROR(AppendComm("c_allreduce_end", means, kFragmentsWarmVar));
    TD_RETURN_IF_ERROR(AppendComm("c_allreduce_end", means, ends));
  }
  for (const ParamGrad& pair : group) {
    if (warms) TD_RETURN_IF_ERROR(AppendWarm(pair.param));
    if (rule_.nesterov) TD_RETURN_IF_ERROR(AppendOuterStep(pair.param, ends));
    TD_RETURN_IF_ERROR(
        AppendMerge(pair.param, rule_.nesterov ? OuterOf(pair.param) : MeanOf(pair.param), ends));
  }
  return OkStatus();
}

}  // namespace

std::string FragmentBeginsVar(int p) { return absl::StrCat("localsgd@BEGINS_", p); }
std::string FragmentEndsVar(int p) { return absl::StrCat("localsgd@ENDS_", p); }
std::string FragmentPendingVar(int p) { return absl::StrCat("localsgd@PENDING_", p); }

StatusOr<std::vector<std::vector<ParamGrad>>> SplitIntoFragments(
    const Program& program, const std::vector<ParamGrad>& grads, int count) {
  TD_REQUIRE(count >= 1);
  std::vector<size_t> layer_bytes;
  std::vector<size_t> layer_of(grads.size());
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < grads.size(); ++i) {
    const std::string& param = grads[i].param;
    const auto [it, added] =
        index.try_emplace(param.substr(0, param.find('.')), layer_bytes.size());
    if (added) layer_bytes.push_back(0);
    layer_of[i] = it->second;
    layer_bytes[it->second] += program.FindVar(param)->desc.bytes();
  }
  if (layer_bytes.size() < static_cast<size_t>(count)) {
    return InvalidArgument(
        "localsgd_configs.fragments: %d is more than the number of layers with parameters, which "
        "is %d [TD1104]; hint: use at most as many fragments as layers",
        count, layer_bytes.size());
  }
  std::vector<size_t> order(layer_bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return layer_bytes[a] > layer_bytes[b]; });
  std::vector<size_t> bytes(static_cast<size_t>(count)), fragment_of(layer_bytes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    // The first `count` layers begin one fragment each, also if layers have no bytes.
    const auto smallest =
        static_cast<size_t>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
    const size_t to = i < bytes.size() ? i : smallest;
    fragment_of[order[i]] = to;
    bytes[to] += layer_bytes[order[i]];
  }
  std::vector<std::vector<ParamGrad>> fragments(static_cast<size_t>(count));
  for (size_t i = 0; i < grads.size(); ++i) {
    fragments[fragment_of[layer_of[i]]].push_back(grads[i]);
  }
  return fragments;
}

StatusOr<FragmentVars> AppendFragments(
    Program& program, const std::vector<std::vector<std::vector<ParamGrad>>>& groups,
    const FragmentRule& rule, int ranks) {
  TD_REQUIRE(rule.k_steps >= 1 && rule.delay >= 0 && rule.delay < rule.k_steps && ranks >= 1);
  TD_REQUIRE(groups.size() == static_cast<size_t>(rule.fragments));
  FragmentAverager averager(program, rule, ranks);
  TD_RETURN_IF_ERROR(averager.AddConditions());
  for (int p = 0; p < rule.fragments; ++p) {
    for (const auto& group : groups[static_cast<size_t>(p)]) {
      for (const ParamGrad& pair : group) TD_RETURN_IF_ERROR(averager.AddStates(pair.param));
      TD_RETURN_IF_ERROR(averager.AppendBegin(group, p));
    }
  }
  for (int p = 0; p < rule.fragments; ++p) {
    for (const auto& group : groups[static_cast<size_t>(p)]) {
      TD_RETURN_IF_ERROR(averager.AppendEnd(group, p));
    }
  }
  return averager.TakeVars();
}

}  // namespace tandem::graph
