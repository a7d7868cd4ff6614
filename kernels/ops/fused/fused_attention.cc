// Definition of fused_attention: softmax(alpha Q K^T) V without the matrix of weights. Sources: Dao
// et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", NeurIPS
// 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. As in
// FlashAttention, backward computes the weights again from LogSum, the logarithm of the sum of
// exponentials of each row.
#include "kernels/ops/fused/fused_attention.h"

#include <algorithm>

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

constexpr size_t kQ = kAttentionQ, kK = kAttentionK, kV = kAttentionV;
constexpr int kPosition = kAttentionPosition;
constexpr size_t kOut = kAttentionOut, kLogSum = kAttentionLogSum, kOutGrad = kAttentionOutGrad;

StatusOr<AttentionShape> Packed(const OpView& view) {
  const Shape& q = view.in(kQ).shape;
  if (q.rank() != 5 || q[2] != 3) {
    return view.Error("without K and V, Q must be [batch, t, 3, heads, dim]");
  }
  if (q[1] < 1) return view.Error("K has 0 rows, expected at least 1");
  AttentionShape a{};
  const int64_t heads = std::max<int64_t>(q[3], 1), all = q[3] * q[4];
  a.matrices = q[0] * q[3];
  a.t = a.s = q[1];
  a.dim = a.width = q[4];
  a.packed = true;
  a.q = {heads, a.t * 3 * all, a.dim, 3 * all, 0};
  a.k = a.v = a.q;
  a.k.begin = all;
  a.v.begin = 2 * all;
  a.out = {heads, a.t * all, a.dim, all, 0};
  return a;
}

Status CheckMatrices(const OpView& view) {
  if (!view.has_in(kK) || !view.has_in(kV)) return view.Error("inputs K and V must be given both");
  const Shape &q = view.in(kQ).shape, &k = view.in(kK).shape, &v = view.in(kV).shape;
  const int rank = q.rank();
  if (rank < 2 || k.rank() != rank || v.rank() != rank) {
    return view.Error(
        absl::StrFormat("inputs Q, K and V must have the same number of dimensions, at least 2, "
                        "but have %d, %d and %d",
                        rank, k.rank(), v.rank()));
  }
  for (int d = 0; d < rank - 2; ++d) {
    if (q[d] == k[d] && q[d] == v[d]) continue;
    return view.Error(
        absl::StrFormat("batch dimension %d is %d in Q, %d in K and %d in V", d, q[d], k[d], v[d]));
  }
  if (q[rank - 1] != k[rank - 1]) {
    return view.Error(absl::StrFormat("rows of Q and K must have one length, but have %d and %d",
                                      q[rank - 1], k[rank - 1]));
  }
  if (k[rank - 2] != v[rank - 2]) {
    return view.Error(absl::StrFormat("K and V must have as many rows, but have %d and %d",
                                      k[rank - 2], v[rank - 2]));
  }
  if (k[rank - 2] < 1) return view.Error("K has 0 rows, expected at least 1");
  return OkStatus();
}

StatusOr<AttentionShape> Separate(const OpView& view) {
  TD_RETURN_IF_ERROR(CheckMatrices(view));
  const Shape &q = view.in(kQ).shape, &k = view.in(kK).shape, &v = view.in(kV).shape;
  const int rank = q.rank();
  AttentionShape a{};
  a.matrices = q.numel(0, rank - 2);
  a.t = q[rank - 2];
  a.s = k[rank - 2];
  a.dim = q[rank - 1];
  a.width = v[rank - 1];
  const auto dense = [](int64_t rows, int64_t n) { return MatrixLayout{1, rows * n, 0, n, 0}; };
  a.q = dense(a.t, a.dim);
  a.k = dense(a.s, a.dim);
  a.v = dense(a.s, a.width);
  a.out = dense(a.t, a.width);
  return a;
}

Status CheckDropout(const OpView& view) {
  const double p = view.attr<double>("dropout_prob");
  if (!(p >= 0 && p < 1)) {
    return view.Error(absl::StrFormat("dropout_prob=%g must be at least 0 and below 1", p));
  }
  if (view.has_in(kPosition)) {
    if (view.in(kPosition) == TensorDesc{DType::kI64, {4}}) return OkStatus();
    return view.Error("input Position must be i64[4]");
  }
  if (p == 0 || view.attr<bool>("is_test")) return OkStatus();
  return view.Error(absl::StrFormat("dropout_prob=%g needs the input Position", p));
}

// The descriptions of Out and LogSum.
struct Results {
  TensorDesc out, log_sum;
};

Results ResultsOf(const OpView& view, const AttentionShape& a) {
  const TensorDesc& q = view.in(kQ);
  const Shape& dims = q.shape;
  if (a.packed) {
    return {{q.dtype, {dims[0], dims[1], dims[3], dims[4]}},
            {DType::kF32, {dims[0], dims[3], dims[1]}}};
  }
  std::vector<int64_t> rows;
  for (int d = 0; d < dims.rank() - 1; ++d) rows.push_back(dims[d]);
  Results results{q, {DType::kF32, Shape(rows)}};
  results.out.shape[dims.rank() - 1] = a.width;
  return results;
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {kQ, kK, kV}, kPosition));
  TD_RETURN_IF_ERROR(CheckDropout(view));
  TD_ASSIGN_OR_RETURN(const AttentionShape a, AttentionShapeOf(view));
  const Results results = ResultsOf(view, a);
  outputs[0] = results.out;
  outputs[1] = results.log_sum;
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const bool packed = ctx.In(kK).empty();
  const std::string dq = ctx.InGrad(kQ);
  const std::string dk = packed ? "" : ctx.InGrad(kK), dv = packed ? "" : ctx.InGrad(kV);
  if (dq.empty() && dk.empty() && dv.empty()) return;
  ctx.Append("fused_attention_grad",
             {{ctx.In(kQ)},
              {ctx.In(kK)},
              {ctx.In(kV)},
              {ctx.In(kAttentionPosition)},
              {ctx.Out(0)},
              {ctx.Out(1)},
              {g}},
             {{dq}, {dk}, {dv}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {kQ, kK, kV, kOut, kOutGrad}, kPosition));
  TD_RETURN_IF_ERROR(CheckDropout(view));
  TD_ASSIGN_OR_RETURN(const AttentionShape a, AttentionShapeOf(view));
  const Results results = ResultsOf(view, a);
  TD_RETURN_IF_ERROR(NeedSame(view, kOut, "Out", kOutGrad, "Out@GRAD"));
  if (view.in(kOut) != results.out) {
    return view.Error("Out must have the type and the shape of the operator's result");
  }
  if (view.in(kLogSum) != results.log_sum) {
    return view.Error("LogSum must be f32, with one element for each row of Q");
  }
  for (const size_t i : {kK, kV}) {
    const auto& names = view.op().outputs;
    if (!a.packed || i >= names.size() || names[i].empty() || names[i][0].empty()) continue;
    return view.Error("without K and V, Q@GRAD is the only gradient");
  }
  for (const size_t i : {kQ, kK, kV}) outputs[i] = view.has_in(i) ? view.in(i) : view.in(kQ);
  return OkStatus();
}

// Returns the number of scores that are not masked.
double Scores(const AttentionShape& a) {
  const double all = static_cast<double>(a.t) * static_cast<double>(a.s);
  const double masked =
      a.causal ? 0.5 * static_cast<double>(a.t) * static_cast<double>(a.t - 1) : 0;
  return static_cast<double>(a.matrices) * (all - masked);
}

double Flops(const OpView& view) {
  const auto a = AttentionShapeOf(view);
  return a.ok() ? 2 * Scores(*a) * static_cast<double>(a->dim + a->width) : 0;
}

double GradFlops(const OpView& view) {
  const auto a = AttentionShapeOf(view);
  return a.ok() ? 2 * Scores(*a) * static_cast<double>(3 * a->dim + 2 * a->width) : 0;
}

constexpr AttrList Attrs() {
  return {{"alpha", 1.0, "factor of the scores Q K^T"},
          {"causal", false, "row i of Q attends to the first i + 1 + s - t of the s rows of K"},
          {"dropout_prob", 0.0, "share of the weights that become 0, as in dropout"},
          {"name", std::string_view(), "the name of dropout, on which the dropped elements depend"},
          {"is_test", false, "no dropout"}};
}

}  // namespace

StatusOr<AttentionShape> AttentionShapeOf(const OpView& view) {
  const bool packed = !view.has_in(kK) && !view.has_in(kV);
  TD_ASSIGN_OR_RETURN(AttentionShape a, packed ? Packed(view) : Separate(view));
  a.causal = view.attr<bool>("causal");
  a.alpha = AttrF32(view, "alpha");
  if (a.causal && a.s < a.t) {
    return view.Error(absl::StrFormat(
        "attribute causal needs at least as many rows of K as of Q, but there are %d and %d", a.s,
        a.t));
  }
  return a;
}

constinit const OpDef kFusedAttention = {
    .type = "fused_attention",
    .doc =
        "Out = dropout(softmax(alpha Q K^T)) V for matrices Q [t, dim], K [s, dim] and V [s, "
        "width], the last two dimensions; the others are a batch. Without K and V, Q is [batch, t, "
        "3, heads, dim] with query, key and value of each head, and Out is [batch, t, heads, dim]. "
        "LogSum: the logarithm of the sum of exponentials of each row of scores. No matrix [t, s] "
        "is stored.",
    .inputs = {{"Q"},
               {"K", Arity::kOptional},
               {"V", Arity::kOptional},
               {"Position", Arity::kOptional}},
    .outputs = {{"Out"}, {"LogSum"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .flops = Flops,
    .cpu = &kFusedAttentionCpu,
};

constinit const OpDef kFusedAttentionGrad = {
    .type = "fused_attention_grad",
    .doc = "Gradients of fused_attention; the weights are computed again from LogSum.",
    .inputs = {{"Q"},
               {"K", Arity::kOptional},
               {"V", Arity::kOptional},
               {"Position", Arity::kOptional},
               {"Out"},
               {"LogSum"},
               {"Out@GRAD"}},
    .outputs = {{"Q@GRAD", Arity::kOptional},
                {"K@GRAD", Arity::kOptional},
                {"V@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .flops = GradFlops,
    .cpu = &kFusedAttentionGradCpu,
};

}  // namespace tandem::ops
