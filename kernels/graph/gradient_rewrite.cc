#include "kernels/graph/gradient_rewrite.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"

namespace tandem::graph {
namespace {

// Moves attribute `name` from `attrs` to `out`. Returns false if `attrs` has no such attribute.
// INVALID_ARGUMENT: the attribute has another type than T.
template <typename T>
StatusOr<bool> Take(ops::AttrMap& attrs, const char* name, T* out) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) return false;
  if (!std::holds_alternative<T>(it->second)) {
    return InvalidArgument("setting \"%s\" of the optimizer has the wrong type [TD1103]", name);
  }
  *out = std::get<T>(it->second);
  attrs.erase(it);
  return true;
}

// Returns a new name `<grad>@<suffix>` for a changed gradient.
std::string NewGrad(const Program& program, const std::string& grad, const char* suffix) {
  return program.FreshName(grad + "@" + suffix);
}

StatusOr<std::vector<ParamGrad>> ClipEach(Program& program, const std::vector<ParamGrad>& grads,
                                          const std::string& type, const ops::AttrMap& attrs) {
  std::vector<ParamGrad> clipped;
  for (const ParamGrad& pair : grads) {
    const std::string out = NewGrad(program, pair.grad, "CLIP");
    TD_RETURN_IF_ERROR(AppendOp(program, {.type = type,
                                          .inputs = {{pair.grad}},
                                          .outputs = {{out}},
                                          .attrs = attrs,
                                          .role = ops::OpRole::kOptimize}));
    clipped.push_back({pair.param, out, pair.rows});
  }
  return clipped;
}

StatusOr<std::vector<ParamGrad>> ClipAll(Program& program, const std::vector<ParamGrad>& grads,
                                         double norm) {
  ops::Op op{.type = "clip_by_global_norm",
             .inputs = {{}},
             .outputs = {{}},
             .attrs = {{"max_norm", norm}},
             .role = ops::OpRole::kOptimize};
  std::vector<ParamGrad> clipped;
  for (const ParamGrad& pair : grads) {
    const std::string out = NewGrad(program, pair.grad, "CLIP");
    op.inputs[0].push_back(pair.grad);
    op.outputs[0].push_back(out);
    clipped.push_back({pair.param, out, pair.rows});
  }
  if (!grads.empty()) TD_RETURN_IF_ERROR(AppendOp(program, std::move(op)));
  return clipped;
}

StatusOr<std::vector<ParamGrad>> Clip(Program& program, const GradientSettings& s,
                                      const std::vector<ParamGrad>& grads) {
  if (s.clip_values) {
    return ClipEach(program, grads, "clip", {{"min", s.clip_min}, {"max", s.clip_max}});
  }
  if (s.clip_norm > 0) return ClipEach(program, grads, "clip_by_norm", {{"max_norm", s.clip_norm}});
  if (s.clip_global_norm > 0) return ClipAll(program, grads, s.clip_global_norm);
  return grads;
}

StatusOr<std::vector<ParamGrad>> Regularize(Program& program, const GradientSettings& s,
                                            std::vector<ParamGrad> grads) {
  for (ParamGrad& pair : grads) {
    if ((s.l1_decay == 0 && s.l2_decay == 0) || s.Excluded(pair.param)) continue;
    const std::string out = NewGrad(program, pair.grad, "DECAY");
    ops::Op op{.type = "regularize",
               .inputs = {{pair.param}, {pair.grad}, {}},
               .outputs = {{out}},
               .attrs = {{"l1", s.l1_decay}, {"l2", s.l2_decay}},
               .role = ops::OpRole::kOptimize};
    if (!pair.rows.empty()) op.inputs[2] = {pair.rows};
    TD_RETURN_IF_ERROR(AppendOp(program, std::move(op)));
    pair.grad = out;
  }
  return grads;
}

Status CheckRanges(const GradientSettings& s) {
  if (s.clip_values && !(s.clip_min <= s.clip_max)) {
    return InvalidArgument("optimizer: clip_min=%g is above clip_max=%g [TD1104]", s.clip_min,
                           s.clip_max);
  }
  for (const double v : {s.clip_norm, s.clip_global_norm, s.l1_decay, s.l2_decay}) {
    if (!(v >= 0) || !std::isfinite(v)) {
      return InvalidArgument(
          "optimizer: clip_norm, clip_global_norm, l1_decay or l2_decay is %g, expected at least 0 "
          "[TD1104]",
          v);
    }
  }
  if ((s.clip_values ? 1 : 0) + (s.clip_norm > 0 ? 1 : 0) + (s.clip_global_norm > 0 ? 1 : 0) > 1) {
    return InvalidArgument(
        "the optimizer sets several ways to clip gradients [TD1108]; hint: keep one of clip_min "
        "with clip_max, clip_norm, and clip_global_norm");
  }
  return OkStatus();
}

}  // namespace

bool GradientSettings::Excluded(const std::string& param) const {
  return std::any_of(decay_exclude.begin(), decay_exclude.end(),
                     [&param](const auto& part) { return param.find(part) != std::string::npos; });
}

StatusOr<GradientSettings> TakeGradientSettings(ops::AttrMap& attrs) {
  GradientSettings s;
  TD_ASSIGN_OR_RETURN(const bool min, Take(attrs, "clip_min", &s.clip_min));
  TD_ASSIGN_OR_RETURN(const bool max, Take(attrs, "clip_max", &s.clip_max));
  if (min != max)
    return InvalidArgument(
        "the optimizer sets only one of clip_min and clip_max [TD1106]; hint: set both");
  s.clip_values = min;
  TD_RETURN_IF_ERROR(Take(attrs, "clip_norm", &s.clip_norm).status());
  TD_RETURN_IF_ERROR(Take(attrs, "clip_global_norm", &s.clip_global_norm).status());
  TD_RETURN_IF_ERROR(Take(attrs, "l1_decay", &s.l1_decay).status());
  TD_RETURN_IF_ERROR(Take(attrs, "l2_decay", &s.l2_decay).status());
  std::string exclude;
  TD_RETURN_IF_ERROR(Take(attrs, "decay_exclude", &exclude).status());
  s.decay_exclude = absl::StrSplit(exclude, ',', absl::SkipEmpty());
  TD_RETURN_IF_ERROR(CheckRanges(s));
  return s;
}

StatusOr<std::vector<ParamGrad>> RewriteGradients(Program& program,
                                                  const GradientSettings& settings,
                                                  const std::vector<ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(std::vector<ParamGrad> clipped, Clip(program, settings, grads));
  return Regularize(program, settings, std::move(clipped));
}

}  // namespace tandem::graph
