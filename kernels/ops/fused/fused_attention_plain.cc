#include "kernels/ops/fused/fused_attention_plain.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/fused/fused_attention_job.h"

namespace tandem::ops {

namespace {

float Dot(const float* x, const float* y, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

void AddTo(float* to, float factor, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * x[i];
}

// Writes the factors of dropout for one row of weights.
void RowMask(const AttentionJob& job, const AttentionInputs& in, int64_t matrix, int64_t row,
             float* mask) {
  const int64_t step = AttentionJob::kMaskColumnsMax;
  std::fill_n(mask, job.shape.s, 1.0f);
  for (int64_t j = 0; job.drop && j < job.shape.s; j += step) {
    job.Mask(in, {matrix, row, 1, j, std::min(step, job.shape.s - j)}, mask + j);
  }
}

// Scratch memory contains the weights of a row and its factors of dropout.
Status RunPlain(AttentionJob& job, const KernelArgs& args) {
  const AttentionShape& a = job.shape;
  TD_ASSIGN_OR_RETURN(const AttentionInputs in, job.Inputs(args));
  auto* weights = static_cast<float*>(args.scratch);
  float* mask = weights + a.s;
  for (int64_t m = 0; m < a.matrices; ++m) {
    for (int64_t i = 0; i < a.t; ++i) {
      const float* q = in.q + a.q.At(m) + i * a.q.row;
      const int64_t kept = a.Kept(i);
      for (int64_t j = 0; j < kept; ++j) {
        weights[j] = a.alpha * Dot(q, in.k + a.k.At(m) + j * a.k.row, a.dim);
      }
      const float largest = *std::max_element(weights, weights + kept);
      float sum = 0.0f;
      for (int64_t j = 0; j < kept; ++j) {
        weights[j] = std::exp(weights[j] - largest);
        sum += weights[j];
      }
      RowMask(job, in, m, i, mask);
      float* out = OutF32(args, 0) + a.out.At(m) + i * a.out.row;
      std::fill_n(out, a.width, 0.0f);
      for (int64_t j = 0; j < kept; ++j) {
        AddTo(out, weights[j] / sum * mask[j], in.v + a.v.At(m) + j * a.v.row, a.width);
      }
      OutF32(args, 1)[m * a.t + i] = largest + std::log(sum);
    }
  }
  return OkStatus();
}

// The gradients of Q, K and V; nullptr: not needed.
struct Gradients {
  float *q, *k, *v;
};

void RowGrad(const AttentionJob& job, const KernelArgs& args, const AttentionInputs& in,
             const Gradients& to, int64_t m, int64_t i) {
  const AttentionShape& a = job.shape;
  auto* mask = static_cast<float*>(args.scratch);
  const float* q = in.q + a.q.At(m) + i * a.q.row;
  const int64_t at = a.out.At(m) + i * a.out.row;
  const float* g = InF32(args, kAttentionOutGrad) + at;
  const float mean = Dot(g, InF32(args, kAttentionOut) + at, a.width);
  const float log_sum = InF32(args, kAttentionLogSum)[m * a.t + i];
  RowMask(job, in, m, i, mask);
  for (int64_t j = 0; j < a.Kept(i); ++j) {
    const int64_t k = a.k.At(m) + j * a.k.row, v = a.v.At(m) + j * a.v.row;
    const float weight = std::exp(a.alpha * Dot(q, in.k + k, a.dim) - log_sum);
    const float gw = Dot(g, in.v + v, a.width) * mask[j];
    const float gx = a.alpha * weight * (gw - mean);
    if (to.q != nullptr) AddTo(to.q + a.q.At(m) + i * a.q.row, gx, in.k + k, a.dim);
    if (to.k != nullptr) AddTo(to.k + k, gx, q, a.dim);
    if (to.v != nullptr) AddTo(to.v + v, weight * mask[j], g, a.width);
  }
}

// Scratch memory contains the factors of dropout of a row.
Status RunPlainGrad(AttentionJob& job, const KernelArgs& args) {
  const AttentionShape& a = job.shape;
  TD_ASSIGN_OR_RETURN(const AttentionInputs in, job.Inputs(args));
  float* first = OutF32(args, kAttentionQ);
  const Gradients to{first, a.packed ? first : OutF32(args, kAttentionK),
                     a.packed ? first : OutF32(args, kAttentionV)};
  const int64_t parts = a.packed ? 3 : 1;
  if (to.q != nullptr) std::fill_n(to.q, parts * a.matrices * a.t * a.dim, 0.0f);
  if (!a.packed && to.k != nullptr) std::fill_n(to.k, a.matrices * a.s * a.dim, 0.0f);
  if (!a.packed && to.v != nullptr) std::fill_n(to.v, a.matrices * a.s * a.width, 0.0f);
  for (int64_t m = 0; m < a.matrices; ++m) {
    for (int64_t i = 0; i < a.t; ++i) RowGrad(job, args, in, to, m, i);
  }
  return OkStatus();
}

}  // namespace

StatusOr<Kernel> PreparePlainAttention(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const AttentionJob job, AttentionJobOf(view));
  const size_t scratch = static_cast<size_t>(2 * job.shape.s) * sizeof(float);
  return MakeKernel<AttentionJob, RunPlain>(job, scratch);
}

StatusOr<Kernel> PreparePlainAttentionGrad(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const AttentionJob job, AttentionJobOf(view));
  const size_t scratch = static_cast<size_t>(job.shape.s) * sizeof(float);
  return MakeKernel<AttentionJob, RunPlainGrad>(job, scratch);
}

}  // namespace tandem::ops
