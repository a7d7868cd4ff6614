// CUDA kernels of the optimizers, which are defined in sgd.cc, momentum.cc, adam.cc, ... The values
// that all elements of a parameter share (learning rate, powers of beta) are in device memory, like
// the parameter. Every thread computes the arguments of its formula from these values. After the
// update, one thread computes the powers of beta for the next step.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/optimizer_args.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

struct State {
  UpdateArgs args;
  int64_t n;
  size_t slots;     // number of slots, including slots of one element
  size_t full;      // number of slots with the parameter's shape, which come first
  float coeff = 0;  // attribute of lars
  // Used only for a sparse gradient. `count`: number of rows of the gradient. `dim`: number of
  // elements per row.
  bool sparse = false, every_row = false;
  int64_t count = 0, dim = 0;

  const float* lr(const KernelArgs& a) const {
    return In<float>(a, static_cast<int>(LearningRateAt(slots)));
  }
};

UpdateRun RunOf(const State& s, const KernelArgs& a) {
  UpdateRun run{.p = In<float>(a, 0),
                .g = In<float>(a, 1),
                .s = {},
                .po = Out<float>(a, 0),
                .so = {},
                .n = s.n};
  for (size_t i = 0; i < s.full; ++i) {
    run.s[i] = In<float>(a, static_cast<int>(2 + i));
    run.so[i] = Out<float>(a, static_cast<int>(1 + i));
  }
  return run;
}

template <typename F>
__device__ void UpdateOne(const UpdateArgs& args, const UpdateRun& r, int64_t i, float gradient) {
  UpdateElement e;
  e.p = r.p[i];
  e.g = gradient;
  for (int k = 0; k < F::kSlots; ++k) e.s[k] = r.s[k][i];
  F::Step(args, e);
  r.po[i] = e.p;
  for (int k = 0; k < F::kSlots; ++k) r.so[k][i] = e.s[k];
}

template <typename F, typename Begin>
__global__ void UpdateKernel(UpdateArgs args, Begin begin, UpdateRun r) {
  begin(args);
  for (int64_t i = GridIndex(); i < r.n; i += GridSize()) UpdateOne<F>(args, r, i, r.g[i]);
}

// A sparse gradient (sparse_rows.h). The values of row rows[k] begin at element k * dim.
struct SparseGrad {
  const int64_t* rows;
  int64_t count, dim;
};

// Updates only the rows that the sparse gradient contains.
template <typename F, typename Begin>
__global__ void UpdateRowsKernel(UpdateArgs args, Begin begin, UpdateRun r, SparseGrad g,
                                 CudaFault* fault) {
  begin(args);
  for (int64_t j = GridIndex(); j < g.count * g.dim; j += GridSize()) {
    const int64_t k = Quotient(j, g.dim), row = g.rows[k], i = row * g.dim + (j - k * g.dim);
    if (row < 0) continue;
    if (i >= r.n) {
      Blame(fault, CudaFault::kRows, k, row, r.n / g.dim);
      continue;
    }
    UpdateOne<F>(args, r, i, r.g[j]);
  }
}

// Returns the index of `row` in g.rows. -1: the gradient does not contain the row.
__device__ int64_t FindRow(const SparseGrad& g, int64_t row) {
  int64_t begin = 0, end = g.count;
  while (begin < end) {
    const int64_t middle = (begin + end) / 2, at = g.rows[middle];
    if (at == row) return middle;
    if (at >= 0 && at < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return -1;
}

// Updates all rows. The gradient of a row that the sparse gradient does not contain is 0.
template <typename F, typename Begin>
__global__ void UpdateEveryRowKernel(UpdateArgs args, Begin begin, UpdateRun r, SparseGrad g) {
  begin(args);
  for (int64_t i = GridIndex(); i < r.n; i += GridSize()) {
    const int64_t row = Quotient(i, g.dim), k = FindRow(g, row);
    UpdateOne<F>(args, r, i, k < 0 ? 0.0f : r.g[k * g.dim + (i - row * g.dim)]);
  }
}

// Copies the parameter and its slots from the inputs to the outputs. An output that shares memory
// with its input is not copied. In programs, outputs usually share the memory of their inputs.
Status CopyThrough(const State& s, const KernelArgs& a) {
  const size_t bytes = static_cast<size_t>(s.n) * sizeof(float);
  TD_RETURN_IF_ERROR(CopyOnDevice(a, a.out[0], a.in[0], bytes));
  for (size_t i = 0; i < s.full; ++i) {
    TD_RETURN_IF_ERROR(CopyOnDevice(a, a.out[1 + i], a.in[2 + i], bytes));
  }
  return OkStatus();
}

template <typename F, typename Begin>
Status UpdateSparse(const State& s, const KernelArgs& a, const UpdateRun& run, const Begin& begin) {
  const CudaStream& stream = StreamOf(a);
  const SparseGrad g{In<int64_t>(a, static_cast<int>(RowsAt(s.slots))), s.count, s.dim};
  if (s.every_row) {
    return Launch(a, CudaBlocks(s.n), kCudaThreads, UpdateEveryRowKernel<F, Begin>, s.args, begin,
                  run, g);
  }
  TD_RETURN_IF_ERROR(CopyThrough(s, a));
  return Launch(a, CudaBlocks(s.count * s.dim), kCudaThreads, UpdateRowsKernel<F, Begin>, s.args,
                begin, run, g, stream.fault);
}

// Runs an optimizer step. `begin` is a device function that completes the arguments.
template <typename F, typename Begin>
Status Update(const State& s, const KernelArgs& a, const UpdateRun& run, const Begin& begin) {
  if (s.n == 0) return OkStatus();
  if (s.sparse) return UpdateSparse<F>(s, a, run, begin);
  return Launch(a, CudaBlocks(s.n), kCudaThreads, UpdateKernel<F, Begin>, s.args, begin, run);
}

template <typename F>
Status RunPlain(State& s, const KernelArgs& a) {
  const float* lr = s.lr(a);
  return Update<F>(s, a, RunOf(s, a), [lr] __device__(UpdateArgs & u) { u.lr = *lr; });
}

Status RunFtrl(State& s, const KernelArgs& a) {
  const float* lr = s.lr(a);
  CudaFault* fault = StreamOf(a).fault;
  return Update<FtrlStep>(s, a, RunOf(s, a), [=] __device__(UpdateArgs & u) {
    u.lr = *lr;
    if (!(u.lr > 0)) Blame(fault, CudaFault::kLearningRate, 0, 0, 0);
  });
}

// Multiplies the power of beta1 by beta1. If `two`, also multiplies the power of beta2 by beta2.
Status AdvancePowers(const State& s, const KernelArgs& a, int in, int out, bool two) {
  const float *power1 = In<float>(a, in), *power2 = two ? In<float>(a, in + 1) : nullptr;
  float *next1 = Out<float>(a, out), *next2 = two ? Out<float>(a, out + 1) : nullptr;
  const float beta1 = s.args.beta1, beta2 = s.args.beta2;
  return ForEach(a, 1, [=] __device__(int64_t) {
    *next1 = *power1 * beta1;
    if (power2 != nullptr) *next2 = *power2 * beta2;
  });
}

Status RunAdam(State& s, const KernelArgs& a) {
  const float *lr = s.lr(a), *power1 = In<float>(a, 4), *power2 = In<float>(a, 5);
  TD_RETURN_IF_ERROR(Update<AdamStep>(s, a, RunOf(s, a), [=] __device__(UpdateArgs & u) {
    AdamStep::Begin(*lr, *power1, *power2, u);
  }));
  return AdvancePowers(s, a, 4, 3, true);
}

Status RunAdamax(State& s, const KernelArgs& a) {
  const float *lr = s.lr(a), *power = In<float>(a, 4);
  TD_RETURN_IF_ERROR(Update<AdamaxStep>(
      s, a, RunOf(s, a), [=] __device__(UpdateArgs & u) { AdamaxStep::Begin(*lr, *power, u); }));
  return AdvancePowers(s, a, 4, 3, false);
}

// ---- Optimizers that need the norms of whole parameters -----------------------------------------

constexpr int64_t kNormBlocks = 256;  // number of partial sums of squares

// Writes kNormBlocks partial sums of the squares of x to `parts`.
Status SquareParts(const KernelArgs& a, const float* x, int64_t n, double* parts) {
  const int64_t piece = (n + kNormBlocks - 1) / kNormBlocks;
  return RowSums<double>(
      a, kNormBlocks, piece,
      [=] __device__(int64_t b, int64_t i) {
        const int64_t at = b * piece + i;
        return at < n ? static_cast<double>(x[at]) * x[at] : 0.0;
      },
      [=] __device__(int64_t b, double sum) { parts[b] = sum; });
}

// Writes the square root of the sum of `count` parts to norm[0].
Status RootOfParts(const KernelArgs& a, const double* parts, int64_t count, float* norm) {
  return RowSums<double>(
      a, 1, count, [=] __device__(int64_t, int64_t i) { return parts[i]; },
      [=] __device__(int64_t, double sum) { *norm = static_cast<float>(sqrt(sum)); });
}

// Writes the 2-norm of x to norm[0]. `parts` must have room for kNormBlocks sums.
Status Norm(const KernelArgs& a, const float* x, int64_t n, double* parts, float* norm) {
  TD_RETURN_IF_ERROR(SquareParts(a, x, n, parts));
  return RootOfParts(a, parts, kNormBlocks, norm);
}

// Scratch memory contains partial sums, two norms, and (only for lamb) the direction of the step.
struct NormScratch {
  static constexpr size_t kBytes = kNormBlocks * sizeof(double) + 64;
  double* parts;
  float *norms, *rest;
  explicit NormScratch(const KernelArgs& a)
      : parts(static_cast<double*>(a.scratch)),
        norms(reinterpret_cast<float*>(parts + kNormBlocks)),
        rest(norms + 16) {}
};

Status RunLars(State& s, const KernelArgs& a) {
  const NormScratch scratch(a);
  const float *lr = s.lr(a), *norms = scratch.norms, coeff = s.coeff;
  TD_RETURN_IF_ERROR(Norm(a, In<float>(a, 0), s.n, scratch.parts, scratch.norms));
  TD_RETURN_IF_ERROR(Norm(a, In<float>(a, 1), s.n, scratch.parts, scratch.norms + 1));
  return Update<LarsStep>(s, a, RunOf(s, a), [=] __device__(UpdateArgs & u) {
    LarsStep::Begin(*lr, coeff, norms[0], norms[1], u);
  });
}

Status RunLamb(State& s, const KernelArgs& a) {
  const NormScratch scratch(a);
  const float *lr = s.lr(a), *power1 = In<float>(a, 4), *power2 = In<float>(a, 5);
  const float *p = In<float>(a, 0), *norms = scratch.norms, *direction = scratch.rest;
  float* out = Out<float>(a, 0);
  UpdateRun run = RunOf(s, a);
  run.po = scratch.rest;
  TD_RETURN_IF_ERROR(Update<LambStep>(
      s, a, run, [=] __device__(UpdateArgs & u) { LambStep::Begin(*power1, *power2, u); }));
  TD_RETURN_IF_ERROR(Norm(a, p, s.n, scratch.parts, scratch.norms));
  TD_RETURN_IF_ERROR(Norm(a, direction, s.n, scratch.parts, scratch.norms + 1));
  TD_RETURN_IF_ERROR(ForEach(a, s.n, [=] __device__(int64_t i) {
    out[i] = p[i] - LambStep::Rate(*lr, norms[0], norms[1]) * direction[i];
  }));
  return AdvancePowers(s, a, 4, 3, true);
}

struct ClipState {
  float max_norm;
  std::vector<int64_t> sizes;

  size_t parts() const { return sizes.size() * kNormBlocks; }
  size_t scratch_bytes() const { return parts() * sizeof(double) + sizeof(float); }
};

// Scales all inputs by one factor, so that the 2-norm of all inputs together is at most max_norm.
Status RunClipByNorm(ClipState& s, const KernelArgs& a) {
  auto* parts = static_cast<double*>(a.scratch);
  auto* norm = reinterpret_cast<float*>(parts + s.parts());
  const float max = s.max_norm;
  for (size_t i = 0; i < s.sizes.size(); ++i) {
    const float* x = In<float>(a, static_cast<int>(i));
    TD_RETURN_IF_ERROR(SquareParts(a, x, s.sizes[i], parts + i * kNormBlocks));
  }
  TD_RETURN_IF_ERROR(RootOfParts(a, parts, static_cast<int64_t>(s.parts()), norm));
  for (size_t i = 0; i < s.sizes.size(); ++i) {
    const int at = static_cast<int>(i);
    TD_RETURN_IF_ERROR((Map<float, 1>(a, {In<float>(a, at)}, Out<float>(a, at), s.sizes[i],
                                      [=] __device__(const float* v) {
                                        return v[0] * (*norm > max ? max / *norm : 1.0f) + 0.0f;
                                      })));
  }
  return OkStatus();
}

// ---- Preparation --------------------------------------------------------------------------------

// Returns the state of a kernel. `scalars`: number of slots of one element, which come last.
StatusOr<State> StateOf(const OpView& view, const UpdateArgs& args, size_t scalars = 0) {
  const size_t slots = SlotsOf(view);
  size_t full = slots - scalars;
  // Skip slots that these attributes do not need.
  while (full > 0 && !view.has_in(1 + full)) --full;
  State state{args, view.in(0).shape.numel(), slots, full};
  state.sparse = view.has_in(RowsAt(slots));
  if (state.sparse) {
    state.every_row = UpdatesEveryRow(view);
    state.count = view.in(1).shape[0];
    state.dim = view.in(1).shape[1];
  }
  return state;
}

template <typename F, UpdateArgs (*Args)(const OpView&)>
StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, Args(view)));
  return MakeKernel<State, RunPlain<F>>(state);
}

UpdateArgs NoArgs(const OpView&) { return {}; }

StatusOr<Kernel> PrepareMomentum(const OpView& view, const PrepareContext& ctx) {
  return view.attr<bool>("use_nesterov")
             ? PreparePlain<MomentumStep<true>, MomentumArgs>(view, ctx)
             : PreparePlain<MomentumStep<false>, MomentumArgs>(view, ctx);
}

StatusOr<Kernel> PrepareRmsprop(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const UpdateArgs args, RmspropArgs(view));
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, args));
  return view.attr<bool>("centered") ? MakeKernel<State, RunPlain<RmspropStep<true>>>(state)
                                     : MakeKernel<State, RunPlain<RmspropStep<false>>>(state);
}

StatusOr<Kernel> PrepareAdam(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, AdamArgs(view), /*scalars=*/2));
  return MakeKernel<State, RunAdam>(state);
}

StatusOr<Kernel> PrepareAdamax(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, AdamaxArgs(view), /*scalars=*/1));
  return MakeKernel<State, RunAdamax>(state);
}

StatusOr<Kernel> PrepareFtrl(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, FtrlArgs(view)));
  return MakeKernel<State, RunFtrl>(state);
}

StatusOr<Kernel> PrepareLars(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(State state, StateOf(view, LarsArgs(view)));
  state.coeff = AttrF32(view, "lars_coeff");
  return MakeKernel<State, RunLars>(state, NormScratch::kBytes);
}

StatusOr<Kernel> PrepareLamb(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, StateOf(view, AdamArgs(view), /*scalars=*/2));
  return MakeKernel<State, RunLamb>(state, NormScratch::kBytes + view.in(0).bytes());
}

StatusOr<Kernel> PrepareClipByNorm(const OpView& view, const PrepareContext&) {
  ClipState s{AttrF32(view, "max_norm"), {}};
  for (size_t i = 0; i < view.in_count(); ++i) s.sizes.push_back(view.in(i).shape.numel());
  const size_t scratch = s.scratch_bytes();
  return MakeKernel<ClipState, RunClipByNorm>(std::move(s), scratch);
}

}  // namespace

std::vector<KernelRegistration> OptimizerCudaRows() {
  return {
      {"adagrad", {{"cuda", PreparePlain<AdagradStep, AdagradArgs>}}},
      {"adam", {{"cuda", PrepareAdam}}},
      {"adamax", {{"cuda", PrepareAdamax}}},
      {"clip_by_global_norm", {{"cuda", PrepareClipByNorm}}},
      {"clip_by_norm", {{"cuda", PrepareClipByNorm}}},
      {"decayed_adagrad", {{"cuda", PreparePlain<DecayedAdagradStep, DecayedAdagradArgs>}}},
      {"ftrl", {{"cuda", PrepareFtrl}}},
      {"lamb", {{"cuda", PrepareLamb}}},
      {"lars_momentum", {{"cuda", PrepareLars}}},
      {"momentum", {{"cuda", PrepareMomentum}}},
      {"rmsprop", {{"cuda", PrepareRmsprop}}},
      {"sgd", {{"cuda", PreparePlain<SgdStep, NoArgs>}}},
  };
}

}  // namespace tandem::ops
