#include "kernels/ops/cpu/half.h"

#include <deque>

#include "kernels/ops/cpu/body.h"
#include "kernels/ops/cpu/half_loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// ---- Elementwise operators: a body of casts and the operator -----------------------------------

bool IsBlockwise(const OpView& view, const OpDef& def) {
  if (!def.elementwise) return false;
  bool alike = view.has_out(0);
  for (size_t i = 0; alike && i < view.in_count(); ++i) {
    alike = !view.has_in(i) || view.in(i).shape == view.out(0).shape;
  }
  for (size_t i = 0; alike && i < view.out_count(); ++i) {
    alike = !view.has_out(i) || view.out(i).shape == view.out(0).shape;
  }
  return alike;
}

// Builds the body: casts to f32, the operator, casts back. The body refers to operators that are
// stored in this object.
class BlockwiseBody {
 public:
  BlockwiseBody(const OpView& view, const OpDef& def) : view_(view) {
    body_.elements = {view.out(0).shape.numel()};
    BodyStep middle{&view.op(), &def, {}, {}, 0};
    for (size_t i = 0; i < view.in_count(); ++i) middle.in.push_back(Input(i));
    std::vector<BodyStep> casts;
    for (size_t i = 0; i < view.out_count(); ++i) middle.out.push_back(Output(i, &casts));
    body_.steps.push_back(std::move(middle));
    for (BodyStep& step : casts) body_.steps.push_back(std::move(step));
  }
  const Body& body() const { return body_; }

 private:
  int AddValue(BodyValue value) {
    body_.values.push_back(value);
    return static_cast<int>(body_.values.size()) - 1;
  }
  BodyStep Cast(int from, int to) {
    ops_.push_back({.type = "cast"});
    const DType dtype = body_.values[static_cast<size_t>(to)].desc.dtype;
    ops_.back().attrs["out_dtype"] = std::string(Name(dtype));
    return {&ops_.back(), FindOp("cast"), {from}, {to}, 0};
  }
  int Wide(const TensorDesc& desc) { return AddValue({{DType::kF32, desc.shape}}); }
  int Input(size_t i) {
    if (!view_.has_in(i)) return -1;
    const int value = AddValue({.desc = view_.in(i), .in = static_cast<int>(i)});
    if (!IsHalf(view_.in(i).dtype)) return value;
    const int wide = Wide(view_.in(i));
    body_.steps.push_back(Cast(value, wide));
    return wide;
  }
  int Output(size_t i, std::vector<BodyStep>* casts) {
    if (!view_.has_out(i)) return -1;
    const int value = AddValue({.desc = view_.out(i), .out = static_cast<int>(i)});
    if (!IsHalf(view_.out(i).dtype)) return value;
    const int wide = Wide(view_.out(i));
    casts->push_back(Cast(wide, value));
    return wide;
  }

  const OpView& view_;
  Body body_;
  std::deque<Op> ops_;
};

// ---- Other operators: conversion of whole tensors -----------------------------------------------

// A 16-bit tensor and the offset of its f32 copy in scratch memory.
struct Widened {
  size_t position, offset;
  HalfLoops::Widen widen;
  HalfLoops::Round round;
  int64_t n;
};

struct State {
  Kernel kernel;
  std::vector<Widened> in, out;
  std::vector<const void*> ins;
  std::vector<void*> outs;
  int threads;
};

template <typename Work>
void ForElements(const State& s, int64_t n, const Work& work) {
  ParallelFor(PartsFor(s.threads, n / 2), n,
              [&](int, int64_t begin, int64_t end) { work(begin, end - begin); });
}

Status Run(State& s, const KernelArgs& args) {
  auto* scratch = static_cast<std::byte*>(args.scratch);
  std::copy_n(args.in, s.ins.size(), s.ins.begin());
  std::copy_n(args.out, s.outs.size(), s.outs.begin());
  for (const Widened& w : s.in) {
    if (args.in[w.position] == nullptr) continue;  // an input that is used only for its description
    const auto* from = static_cast<const uint16_t*>(args.in[w.position]);
    auto* to = reinterpret_cast<float*>(scratch + w.offset);
    ForElements(s, w.n, [&](int64_t at, int64_t n) { w.widen(from + at, to + at, n); });
    s.ins[w.position] = to;
  }
  for (const Widened& w : s.out) s.outs[w.position] = scratch + w.offset;
  KernelArgs inner = args;
  inner.in = s.ins.data();
  inner.out = s.outs.data();
  inner.state = s.kernel.state.get();
  TD_RETURN_IF_ERROR(s.kernel.run(inner));
  for (const Widened& w : s.out) {
    const auto* from = reinterpret_cast<const float*>(scratch + w.offset);
    auto* to = static_cast<uint16_t*>(args.out[w.position]);
    ForElements(s, w.n, [&](int64_t at, int64_t n) { w.round(from + at, to + at, n); });
  }
  return OkStatus();
}

// The descriptions of an operator's inputs or outputs, with f32 instead of 16-bit types, and the
// list of the 16-bit tensors. The constructor reserves scratch memory for the f32 copies, starting
// at offset *bytes.
class WideSide {
 public:
  template <typename Has, typename Get>
  WideSide(size_t count, const Has& has, const Get& get, size_t* bytes) : descs_(count) {
    for (size_t i = 0; i < count; ++i) {
      pointers_.push_back(nullptr);
      if (!has(i)) continue;
      const TensorDesc& desc = get(i);
      descs_[i] = desc;
      pointers_.back() = &descs_[i];
      if (!IsHalf(desc.dtype)) continue;
      descs_[i].dtype = DType::kF32;
      const bool brain = desc.dtype == DType::kBF16;
      const HalfLoops& loops = BestHalfLoops();
      widened_.push_back({i, *bytes, brain ? loops.widen_bf16 : loops.widen_f16,
                          brain ? loops.round_bf16 : loops.round_f16, desc.shape.numel()});
      *bytes += RoundUp(descs_[i].bytes());
    }
  }
  const std::vector<const TensorDesc*>& descs() const { return pointers_; }
  const std::vector<Widened>& widened() const { return widened_; }

 private:
  std::vector<TensorDesc> descs_;
  std::vector<const TensorDesc*> pointers_;
  std::vector<Widened> widened_;
};

}  // namespace

bool HasHalf(const OpView& view) {
  for (size_t i = 0; i < view.in_count(); ++i) {
    if (view.has_in(i) && IsHalf(view.in(i).dtype)) return true;
  }
  for (size_t i = 0; i < view.out_count(); ++i) {
    if (view.has_out(i) && IsHalf(view.out(i).dtype)) return true;
  }
  return false;
}

StatusOr<Kernel> PrepareWidened(const OpView& view, const PrepareContext& ctx, PrepareFn f32) {
  const OpDef& def = *FindOp(view.op().type);
  if (IsBlockwise(view, def)) return PrepareBody(BlockwiseBody(view, def).body(), ctx.threads);
  size_t bytes = 0;
  const WideSide in(
      view.in_count(), [&](size_t i) { return view.has_in(i); },
      [&](size_t i) -> const TensorDesc& { return view.in(i); }, &bytes);
  const WideSide out(
      view.out_count(), [&](size_t i) { return view.has_out(i); },
      [&](size_t i) -> const TensorDesc& { return view.out(i); }, &bytes);
  TD_ASSIGN_OR_RETURN(Kernel kernel, f32(OpView(view.op(), def, in.descs(), out.descs()), ctx));
  // The scratch memory of the f32 kernel is at the start of the scratch memory.
  const size_t begin = RoundUp(kernel.scratch_bytes);
  State state{std::move(kernel),
              in.widened(),
              out.widened(),
              std::vector<const void*>(view.in_count()),
              std::vector<void*>(view.out_count()),
              ctx.threads};
  for (auto* side : {&state.in, &state.out}) {
    for (Widened& w : *side) w.offset += begin;
  }
  return MakeKernel<State, Run>(std::move(state), begin + bytes);
}

}  // namespace tandem::ops
