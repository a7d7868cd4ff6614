// The operator fused_elementwise runs several elementwise operators together, block by block. The
// output of one operator is still in the cache when the next operator reads it. The threads are
// started only once, even for many small tensors.
#include "kernels/ops/fused/fused_elementwise.h"

#include <map>
#include <numeric>

#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

class Binder {
 public:
  explicit Binder(const OpView& view) : view_(view) {}
  StatusOr<Body> Bind();

 private:
  Status AddStep(const Op& op);
  Status CheckShapes(const BodyStep& step) const;
  Status Group();
  const TensorDesc& desc(int value) const { return body_.values[static_cast<size_t>(value)].desc; }
  // Returns the shape of the elements that a step processes: the shape of its first result.
  const Shape& ShapeOf(const BodyStep& step) const { return desc(step.out[0]).shape; }

  const OpView& view_;
  Body body_;
  std::map<std::string, int> now_;  // name of a variable -> index of its current value
};

Status Binder::AddStep(const Op& op) {
  const OpDef* def = FindOp(op.type);  // not nullptr, because the program was checked before
  if (!def->elementwise) return view_.Error(op.type + " is not elementwise");
  BodyStep step{&op, def, {}, {}};
  std::vector<const TensorDesc*> in;
  for (const auto& slot : op.inputs) {
    if (slot.empty()) step.in.push_back(-1);
    for (const std::string& name : slot) {
      const auto it = now_.find(name);
      if (it == now_.end()) return view_.Error(op.type + " reads \"" + name + "\" from nowhere");
      step.in.push_back(it->second);
    }
  }
  for (const int v : step.in) in.push_back(v < 0 ? nullptr : &desc(v));
  size_t positions = 0;
  for (const auto& slot : op.outputs) positions += std::max<size_t>(slot.size(), 1);
  std::vector<TensorDesc> out(positions);
  TD_RETURN_IF_ERROR(Annotate(def->infer(OpView(op, *def, in, {}), out), view_.op().type));
  size_t position = 0;
  for (const auto& slot : op.outputs) {
    if (slot.empty()) step.out.push_back(-1), ++position;
    for (const std::string& name : slot) {
      now_[name] = static_cast<int>(body_.values.size());
      step.out.push_back(now_[name]);
      body_.values.push_back({out[position++]});
    }
  }
  if (step.out.empty() || step.out[0] < 0) return view_.Error(op.type + " writes nothing");
  TD_RETURN_IF_ERROR(CheckShapes(step));
  body_.steps.push_back(std::move(step));
  return OkStatus();
}

Status Binder::CheckShapes(const BodyStep& step) const {
  for (const auto* values : {&step.in, &step.out}) {
    for (const int v : *values) {
      if (v < 0 || desc(v).shape == ShapeOf(step) || desc(v).shape.numel() == 1) continue;
      return view_.Error(step.op->type + " inside has tensors of several shapes");
    }
  }
  for (const int v : step.in) {
    const bool inside = v >= 0 && body_.values[static_cast<size_t>(v)].in < 0;
    if (inside && desc(v).shape != ShapeOf(step)) {
      return view_.Error(step.op->type + " inside reads a one-element result");
    }
  }
  return OkStatus();
}

// Puts steps into one group if they use the same variable and at least one of them writes it.
Status Binder::Group() {
  const size_t n = body_.steps.size();
  std::vector<size_t> group(n);
  std::iota(group.begin(), group.end(), 0);
  const auto join = [&](size_t a, size_t b) {
    const size_t from = std::max(group[a], group[b]), to = std::min(group[a], group[b]);
    std::replace(group.begin(), group.end(), from, to);
  };
  struct Touch {
    bool written = false;
    std::vector<size_t> steps;
  };
  std::map<std::string, Touch> touches;
  for (size_t i = 0; i < n; ++i) {
    for (const auto& slot : body_.steps[i].op->inputs) {
      for (const auto& name : slot) touches[name].steps.push_back(i);
    }
    for (const auto& slot : body_.steps[i].op->outputs) {
      for (const auto& name : slot) {
        touches[name].written = true;
        touches[name].steps.push_back(i);
      }
    }
  }
  for (const auto& [name, touch] : touches) {
    if (!touch.written) continue;
    for (const size_t i : touch.steps) join(touch.steps[0], i);
  }
  std::map<size_t, int> numbers;
  for (size_t i = 0; i < n; ++i) {
    const auto [it, added] = numbers.try_emplace(group[i], static_cast<int>(numbers.size()));
    body_.steps[i].group = it->second;
    const int64_t elements = ShapeOf(body_.steps[i]).numel();
    if (added) body_.elements.push_back(elements);
    if (body_.elements[static_cast<size_t>(it->second)] != elements) {
      return view_.Error("operators of one fused group have tensors of different shapes");
    }
  }
  return OkStatus();
}

StatusOr<Body> Binder::Bind() {
  const Op& op = view_.op();
  if (op.inputs.size() != 1 || op.outputs.size() != 1)
    return view_.Error("expected one slot X and one slot Out");
  for (size_t i = 0; i < op.inputs[0].size(); ++i) {
    now_[op.inputs[0][i]] = static_cast<int>(body_.values.size());
    body_.values.push_back({view_.in(i), static_cast<int>(i)});
  }
  for (const Op& inner : op.body) TD_RETURN_IF_ERROR(AddStep(inner));
  for (size_t i = 0; i < op.outputs[0].size(); ++i) {
    const std::string& name = op.outputs[0][i];
    const auto it = now_.find(name);
    if (it == now_.end() || body_.values[static_cast<size_t>(it->second)].in >= 0) {
      return view_.Error(absl::StrFormat("no operator of the body writes \"%s\"", name));
    }
    body_.values[static_cast<size_t>(it->second)].out = static_cast<int>(i);
  }
  TD_RETURN_IF_ERROR(Group());
  return std::move(body_);
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Body body, BindBody(view));
  for (const BodyValue& value : body.values) {
    if (value.out >= 0) outputs[static_cast<size_t>(value.out)] = value.desc;
  }
  return OkStatus();
}

}  // namespace

StatusOr<Body> BindBody(const OpView& view) { return Binder(view).Bind(); }

constinit const OpDef kFusedElementwise = {
    .type = "fused_elementwise",
    .doc = "Runs the elementwise operators of its body, block by block of the tensors.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .infer = Infer,
    .cpu = &kFusedElementwiseCpu,
    .has_body = true,
};

}  // namespace tandem::ops
