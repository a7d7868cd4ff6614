// CUDA kernels of the fused operators, which are defined in fused_elementwise.cc and
// fused_elemwise_activation.cc. A body is compiled as one kernel (fused_compiled_cuda.h). If the
// compilation is not possible, the operators of the body run one after another with separate
// launches. The intermediate values are then in scratch memory.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/formulas/activation.h"
#include "kernels/ops/fused/fused_compiled_cuda.h"
#include "kernels/ops/fused/fused_elementwise.h"
#include "kernels/ops/fused/fused_elemwise_activation.h"

namespace tandem::ops {
namespace {

// ---- fused_elementwise --------------------------------------------------------------------------

// The location of a value: an input or output of the fused operator, or scratch memory.
struct Home {
  int in = -1, out = -1;
  size_t offset = 0;
};

struct Step {
  Kernel kernel;
  // For each input and output of the kernel: index of its location in State::homes. -1: the tensor
  // is absent.
  std::vector<int> in, out;
  std::vector<const void*> ins;
  std::vector<void*> outs;
};

// A result of one element. Run copies the result to the output after all steps, because later steps
// may still read the old value.
struct Late {
  int home, out;
  size_t bytes;
};

struct State {
  std::vector<Home> homes;
  std::vector<Step> steps;
  std::vector<Late> late;
};

void* Address(const State& s, int home, const KernelArgs& args) {
  if (home < 0) return nullptr;
  const Home& h = s.homes[static_cast<size_t>(home)];
  if (h.out >= 0) return args.out[h.out];
  if (h.in >= 0) return const_cast<void*>(args.in[h.in]);
  return static_cast<std::byte*>(args.scratch) + h.offset;
}

Status Run(State& s, const KernelArgs& args) {
  for (Step& step : s.steps) {
    for (size_t i = 0; i < step.in.size(); ++i) step.ins[i] = Address(s, step.in[i], args);
    for (size_t i = 0; i < step.out.size(); ++i) step.outs[i] = Address(s, step.out[i], args);
    KernelArgs inner = args;  // the scratch memory of the step's kernel is at the start
    inner.in = step.ins.data();
    inner.out = step.outs.data();
    inner.state = step.kernel.state.get();
    TD_RETURN_IF_ERROR(step.kernel.run(inner));
  }
  for (const Late& late : s.late) {
    TD_RETURN_IF_ERROR(
        CopyOnDevice(args, args.out[late.out], Address(s, late.home, args), late.bytes));
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareStep(const Body& body, const BodyStep& step, const PrepareContext& ctx) {
  std::vector<const TensorDesc*> in, out;
  const auto desc = [&body](int value) {
    return value < 0 ? nullptr : &body.values[static_cast<size_t>(value)].desc;
  };
  for (const int value : step.in) in.push_back(desc(value));
  for (const int value : step.out) out.push_back(desc(value));
  Status why = Unimplemented("operator %s has no CUDA kernel", step.op->type);
  for (const KernelImpl& impl : CudaImplsOf(step.op->type)) {
    auto kernel = impl.prepare(OpView(*step.op, *step.def, in, out), ctx);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
    why = Annotate(kernel.status(), step.op->type);
  }
  return why;
}

StatusOr<Kernel> PrepareFused(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Body body, BindBody(view));
  State state;
  size_t scratch = 0;
  for (const BodyStep& step : body.steps) {
    TD_ASSIGN_OR_RETURN(Kernel kernel, PrepareStep(body, step, ctx));
    scratch = std::max(scratch, kernel.scratch_bytes);
    state.steps.push_back({std::move(kernel), step.in, step.out,
                           std::vector<const void*>(step.in.size()),
                           std::vector<void*>(step.out.size())});
  }
  const auto take = [&scratch](size_t bytes) {
    const size_t at = (scratch + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
    scratch = at + bytes;
    return at;
  };
  for (size_t i = 0; i < body.values.size(); ++i) {
    const BodyValue& value = body.values[i];
    const bool late = value.out >= 0 && value.desc.shape.numel() == 1;
    if (late) state.late.push_back({static_cast<int>(i), value.out, value.desc.bytes()});
    if (late || (value.in < 0 && value.out < 0)) {
      state.homes.push_back({-1, -1, take(value.desc.bytes())});
    } else {
      state.homes.push_back({value.in, value.out, 0});
    }
  }
  return MakeKernel<State, Run>(std::move(state), scratch);
}

// ---- fused_elemwise_activation ------------------------------------------------------------------

struct AddState {
  FusedAdd op;
  BroadcastShape s;

  int64_t numel() const { return s.outer * s.len * s.inner; }
  MiddleSums repeats() const { return {s.outer, s.len, s.inner}; }
};

struct Act {
  FusedAdd op;
  __device__ float Of(float x) const {
    return op.act == FusedAct::kRelu ? Relu::Of(x) : x * op.scale + 0.0f;
  }
  // Returns the gradient of the activation. `at`: the result of the activation, or a value that is
  // positive exactly if the result is positive.
  __device__ float Grad(float at, float g) const {
    return op.act == FusedAct::kRelu ? ReluGrad::Of(at, g) : g * op.scale + 0.0f;
  }
};

template <typename T>
Status RunAdd(AddState& s, const KernelArgs& args) {
  const T *x = In<T>(args, 0), *y = In<T>(args, 1);
  T* out = Out<T>(args, 0);
  const Act act{s.op};
  const int64_t len = s.s.len, inner = s.s.inner;
  const bool first = s.op.act_first;
  return ForEach(args, s.numel(), [=] __device__(int64_t i) {
    const float a = Wide(x[i]), b = Wide(y[Remainder(inner == 1 ? i : Quotient(i, inner), len)]);
    out[i] = Narrow<T>(first ? a + act.Of(b) : act.Of(a + b));
  });
}

// Computes the gradients of an addition with an activation. For act(X + Y), both gradients are
// gradients of the sum. For X + act(Y), the gradient of Y is first summed over the broadcast, then
// multiplied by the derivative of the activation. For relu, the derivative follows from Y: Y > 0
// exactly if relu(Y) > 0.
template <typename T>
Status RunAddGrad(AddState& s, const KernelArgs& args) {
  const T *out = In<T>(args, 0), *y = In<T>(args, 1), *g = In<T>(args, 2);
  const Act act{s.op};
  const bool first = s.op.act_first;
  if (T* gy = Out<T>(args, 1)) {
    TD_RETURN_IF_ERROR(s.repeats().Run(
        args, args.scratch,
        [=] __device__(int64_t i, int64_t) {
          return first ? Wide(g[i]) : act.Grad(Wide(out[i]), Wide(g[i]));
        },
        [=] __device__(int64_t i, float sum) {
          gy[i] = Narrow<T>(first ? act.Grad(Wide(y[i]), sum) : sum);
        }));
  }
  T* gx = Out<T>(args, 0);
  if (gx == nullptr) return OkStatus();
  return ForEach(args, s.numel(), [=] __device__(int64_t i) {
    gx[i] = first ? g[i] : Narrow<T>(act.Grad(Wide(out[i]), Wide(g[i])));
  });
}

template <Status (*Body)(AddState&, const KernelArgs&)>
StatusOr<Kernel> PrepareAdd(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const FusedAdd op, FusedAddOf(view));
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  const AddState state{op, s};
  return MakeKernel<AddState, Body>(state, state.repeats().scratch_bytes());
}

}  // namespace

std::vector<KernelRegistration> FusedCudaRows() {
  return {
      {"fused_elementwise", {{"nvrtc", PrepareCompiled}, {"sequence", PrepareFused}}},
      {"fused_elemwise_activation",
       {{"cuda", ByType<PrepareAdd<RunAdd<float>>, PrepareAdd<RunAdd<__half>>,
                        PrepareAdd<RunAdd<__nv_bfloat16>>>}}},
      {"fused_elemwise_activation_grad",
       {{"cuda", ByType<PrepareAdd<RunAddGrad<float>>, PrepareAdd<RunAddGrad<__half>>,
                        PrepareAdd<RunAddGrad<__nv_bfloat16>>>}}},
  };
}

}  // namespace tandem::ops
