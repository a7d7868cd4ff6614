// CUDA kernels of softmax, the losses and accuracy, which are defined in softmax.cc,
// softmax_xent.cc, sigmoid_xent.cc and accuracy.cc. One block processes one row.
#include "kernels/ops/cpu/vector_code.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/formulas/regression_loss.h"
#include "kernels/ops/formulas/sigmoid_xent.h"

namespace tandem::ops {
namespace {

// ---- softmax ------------------------------------------------------------------------------------

struct SoftmaxState {
  int64_t rows, n;
  int64_t height;  // number of rows of a causal matrix; 0: not causal

  // Returns the number of elements at the start of a row that are not masked.
  __device__ int64_t Kept(int64_t row) const {
    return height == 0 ? n : row % height + 1 + n - height;
  }
};

// Exponentials computes y = exp(x - max) for the first `kept` elements of a row. max: maximum of
// these elements. sum: sum of y over these elements. Every thread of the block gets max and sum.
struct RowOfExps {
  float max, sum;
};
__device__ RowOfExps Exponentials(const float* x, float* y, int64_t kept) {
  float max = -__int_as_float(0x7F800000);
  for (int64_t i = threadIdx.x; i < kept; i += blockDim.x) max = x[i] > max ? x[i] : max;
  max = BlockMax(max);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < kept; i += blockDim.x) {
    const float e = Exp(x[i] - max);
    y[i] = e;
    sum += e;
  }
  return {max, BlockSum(sum)};
}

__global__ void SoftmaxKernel(SoftmaxState s, const float* x, float* y) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.n, kept = s.Kept(r);
    const float scale = 1.0f / Exponentials(x + at, y + at, kept).sum;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      y[at + i] = i < kept ? y[at + i] * scale : 0.0f;
    }
  }
}

__global__ void SoftmaxGradKernel(SoftmaxState s, const float* y, const float* gy, float* gx) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.n, kept = s.Kept(r);
    float dot = 0.0f;
    for (int64_t i = threadIdx.x; i < kept; i += blockDim.x) dot += y[at + i] * gy[at + i];
    dot = BlockSum(dot);
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      gx[at + i] = i < kept ? y[at + i] * (gy[at + i] - dot) : 0.0f;
    }
  }
}

Status RunSoftmax(SoftmaxState& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.n), SoftmaxKernel, s, In<float>(args, 0),
                Out<float>(args, 0));
}

Status RunSoftmaxGrad(SoftmaxState& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.n), SoftmaxGradKernel, s,
                In<float>(args, 0), In<float>(args, 1), Out<float>(args, 0));
}

template <Status (*Body)(SoftmaxState&, const KernelArgs&)>
StatusOr<Kernel> PrepareSoftmax(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  const int rank = x.rank();
  return MakeKernel<SoftmaxState, Body>(
      {x.numel(0, rank - 1), x[rank - 1], view.attr<bool>("causal") ? x[rank - 2] : int64_t{0}});
}

// ---- softmax_with_cross_entropy -----------------------------------------------------------------

struct LossState {
  int64_t rows, classes, ignore;
};

// Returns the label of row r. If the label is invalid, records a fault and returns 0.
__device__ int64_t LabelOf(const LossState& s, const int64_t* labels, int64_t r, CudaFault* fault) {
  const int64_t label = labels[r];
  if (label == s.ignore || (label >= 0 && label < s.classes)) return label;
  Blame(fault, CudaFault::kLabel, r, label, s.classes);
  return 0;
}

// Computes loss = log(sum exp(x - max)) - (x[label] - max) for each row. This form never takes the
// logarithm of a probability that underflowed.
__global__ void LossKernel(LossState s, const float* x, const int64_t* labels, float* softmax,
                           float* loss, CudaFault* fault) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.classes, label = LabelOf(s, labels, r, fault);
    const float at_label = label == s.ignore ? 0.0f : x[at + label];
    const RowOfExps row = Exponentials(x + at, softmax + at, s.classes);
    const float scale = 1.0f / row.sum;
    for (int64_t i = threadIdx.x; i < s.classes; i += blockDim.x) softmax[at + i] *= scale;
    if (threadIdx.x != 0 || loss == nullptr) continue;
    loss[r] = label == s.ignore ? 0.0f : logf(row.sum) - (at_label - row.max);
  }
}

__global__ void LossGradKernel(LossState s, const float* softmax, const int64_t* labels,
                               const float* gloss, float* gx, CudaFault* fault) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.classes, label = LabelOf(s, labels, r, fault);
    const float g = label == s.ignore ? 0.0f : gloss[r];
    for (int64_t i = threadIdx.x; i < s.classes; i += blockDim.x) {
      const float p = softmax[at + i];
      gx[at + i] = label == s.ignore ? 0.0f : i == label ? (p - 1.0f) * g : p * g;
    }
  }
}

Status RunLoss(LossState& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  const CudaStream& stream = StreamOf(args);
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.classes), LossKernel, s,
                In<float>(args, 0), In<int64_t>(args, 1), Out<float>(args, 0), Out<float>(args, 1),
                stream.fault);
}

Status RunLossGrad(LossState& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  const CudaStream& stream = StreamOf(args);
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.classes), LossGradKernel, s,
                In<float>(args, 0), In<int64_t>(args, 1), In<float>(args, 2), Out<float>(args, 0),
                stream.fault);
}

template <Status (*Body)(LossState&, const KernelArgs&)>
StatusOr<Kernel> PrepareLoss(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  return MakeKernel<LossState, Body>({x[0], x[1], view.attr<int64_t>("ignore_index")});
}

// ---- sigmoid_cross_entropy ----------------------------------------------------------------------

struct SigmoidState {
  int64_t n;
};

__device__ void CheckBinary(CudaFault* fault, int64_t at, int64_t label) {
  if (label != 0 && label != 1) Blame(fault, CudaFault::kLabel, at, label, 2);
}

Status RunSigmoidLoss(SigmoidState& s, const KernelArgs& args) {
  const float* x = In<float>(args, 0);
  const int64_t* labels = In<int64_t>(args, 1);
  float *sigmoid = Out<float>(args, 0), *loss = Out<float>(args, 1);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.n, [=] __device__(int64_t i) {
    CheckBinary(fault, i, labels[i]);
    const SigmoidXent xent = SigmoidXent::Of(x[i], labels[i] == 1);
    sigmoid[i] = xent.sigmoid;
    loss[i] = xent.loss;
  });
}

Status RunSigmoidLossGrad(SigmoidState& s, const KernelArgs& args) {
  const float *sigmoid = In<float>(args, 0), *g = In<float>(args, 2);
  const int64_t* labels = In<int64_t>(args, 1);
  float* gx = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.n, [=] __device__(int64_t i) {
    CheckBinary(fault, i, labels[i]);
    gx[i] = SigmoidXent::Grad(sigmoid[i], labels[i] == 1, g[i]);
  });
}

template <Status (*Body)(SigmoidState&, const KernelArgs&)>
StatusOr<Kernel> PrepareSigmoidLoss(const OpView& view, const PrepareContext&) {
  return MakeKernel<SigmoidState, Body>({view.in(0).shape.numel()});
}

// ---- square_error_cost, huber_loss, l1_loss -----------------------------------------------------

struct RegressionState {
  int64_t n;
  float delta;
};

template <typename Loss>
Status RunRegressionLoss(RegressionState& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *y = In<float>(args, 1);
  float* out = Out<float>(args, 0);
  const float delta = s.delta;
  return ForEach(args, s.n, [=] __device__(int64_t i) { out[i] = Loss::Of(x[i], y[i], delta); });
}

template <typename Loss>
Status RunRegressionLossGrad(RegressionState& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *y = In<float>(args, 1), *g = In<float>(args, 2);
  float* gx = Out<float>(args, 0);
  const float delta = s.delta;
  return ForEach(args, s.n,
                 [=] __device__(int64_t i) { gx[i] = Loss::Grad(x[i], y[i], g[i], delta); });
}

template <Status (*Body)(RegressionState&, const KernelArgs&), bool delta = false>
StatusOr<Kernel> PrepareRegressionLoss(const OpView& view, const PrepareContext&) {
  float limit = 0;
  if constexpr (delta) limit = AttrF32(view, "delta");
  return MakeKernel<RegressionState, Body>({view.in(0).shape.numel(), limit});
}

// ---- accuracy -----------------------------------------------------------------------------------

struct AccuracyState {
  int64_t rows, classes, k;
};

// For each row, writes to scratch memory whether the label's element is among the k largest
// elements.
__global__ void AmongKernel(AccuracyState s, const float* x, const int64_t* labels,
                            int32_t* among) {
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const float* row = x + r * s.classes;
    const int64_t label = labels[r];
    const bool valid = label >= 0 && label < s.classes && row[label] == row[label];
    int larger = 0;
    for (int64_t c = threadIdx.x; valid && c < s.classes; c += blockDim.x) {
      larger += row[c] > row[label] || (row[c] == row[label] && c < label) ? 1 : 0;
    }
    larger = BlockSum(larger);
    if (threadIdx.x == 0) among[r] = valid && larger < s.k ? 1 : 0;
  }
}

Status RunAccuracy(AccuracyState& s, const KernelArgs& args) {
  auto* among = static_cast<int32_t*>(args.scratch);
  TD_RETURN_IF_ERROR(Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.classes), AmongKernel, s,
                            In<float>(args, 0), In<int64_t>(args, 1), among));
  float* accuracy = Out<float>(args, 0);
  int32_t* correct = Out<int32_t>(args, 1);
  const auto rows = static_cast<float>(s.rows);
  return RowSums<int>(
      args, 1, s.rows, [=] __device__(int64_t, int64_t r) { return among[r]; },
      [=] __device__(int64_t, int sum) {
        if (accuracy != nullptr) *accuracy = static_cast<float>(sum) / rows;
        if (correct != nullptr) *correct = sum;
      });
}

StatusOr<Kernel> PrepareAccuracy(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  return MakeKernel<AccuracyState, RunAccuracy>({x[0], x[1], view.attr<int64_t>("k")},
                                                static_cast<size_t>(x[0]) * sizeof(int32_t));
}

}  // namespace

std::vector<KernelRegistration> SoftmaxCudaRows() {
  return {
      {"accuracy", {{"cuda", PrepareAccuracy}}},
      {"huber_loss", {{"cuda", PrepareRegressionLoss<RunRegressionLoss<HuberLoss>, true>}}},
      {"huber_loss_grad",
       {{"cuda", PrepareRegressionLoss<RunRegressionLossGrad<HuberLoss>, true>}}},
      {"l1_loss", {{"cuda", PrepareRegressionLoss<RunRegressionLoss<AbsoluteErrorLoss>>}}},
      {"l1_loss_grad", {{"cuda", PrepareRegressionLoss<RunRegressionLossGrad<AbsoluteErrorLoss>>}}},
      {"sigmoid_cross_entropy", {{"cuda", PrepareSigmoidLoss<RunSigmoidLoss>}}},
      {"sigmoid_cross_entropy_grad", {{"cuda", PrepareSigmoidLoss<RunSigmoidLossGrad>}}},
      {"square_error_cost", {{"cuda", PrepareRegressionLoss<RunRegressionLoss<SquareErrorLoss>>}}},
      {"square_error_cost_grad",
       {{"cuda", PrepareRegressionLoss<RunRegressionLossGrad<SquareErrorLoss>>}}},
      {"softmax", {{"cuda", PrepareSoftmax<RunSoftmax>}}},
      {"softmax_grad", {{"cuda", PrepareSoftmax<RunSoftmaxGrad>}}},
      {"softmax_with_cross_entropy", {{"cuda", PrepareLoss<RunLoss>}}},
      {"softmax_with_cross_entropy_grad", {{"cuda", PrepareLoss<RunLossGrad>}}},
  };
}

}  // namespace tandem::ops
