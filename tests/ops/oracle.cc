#include "tests/ops/oracle.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "tests/ops/op_cases.h"

namespace tandem::optest {
namespace {

using Values = std::vector<Value>;

// ---- Products -----------------------------------------------------------------------------------

// Multiplies the last two dimensions of x and y for each element of the batch.
Value Product(const Value& x, bool trans_x, const Value& y, bool trans_y, double alpha = 1) {
  const int rank = x.desc.shape.rank(), rows = rank - 2, cols = rank - 1;
  Shape shape = x.desc.shape;
  const int64_t m = shape[trans_x ? cols : rows], k = shape[trans_x ? rows : cols];
  const int64_t n = y.desc.shape[trans_y ? rows : cols], batch = shape.numel(0, rows);
  shape[rows] = m;
  shape[cols] = n;
  Value out = Zeros(shape);
  const auto at = [](const Value& v, int64_t begin, bool trans, int64_t height, int64_t width,
                     int64_t row, int64_t col) {
    return v.v[static_cast<size_t>(begin + (trans ? col * height + row : row * width + col))];
  };
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t p = 0; p < k; ++p) {
          dot += at(x, b * m * k, trans_x, m, k, i, p) * at(y, b * k * n, trans_y, k, n, p, j);
        }
        out.v[static_cast<size_t>((b * m + i) * n + j)] = alpha * dot;
      }
    }
  }
  return out;
}

Values Fc(const OracleArgs& a) {
  Value out = Product(a.in[0], false, a.in[1], false);
  const auto n = static_cast<size_t>(out.desc.shape[1]);
  for (size_t i = 0; a.Has(2) && i < out.v.size(); ++i) out.v[i] += a[2][i % n];
  return {out};
}

Values FcGrad(const OracleArgs& a) {
  const Value &x = a.in[0], &w = a.in[1], &g = a.in[2];
  const auto n = static_cast<size_t>(w.desc.shape[1]);
  Value bias = Zeros({w.desc.shape[1]});
  for (size_t i = 0; i < g.v.size(); ++i) bias.v[i % n] += g.v[i];
  return {Product(g, false, w, true), Product(x, true, g, false), bias};
}

Values Matmul(const OracleArgs& a) {
  return {Product(a.in[0], a.Get<bool>("trans_x"), a.in[1], a.Get<bool>("trans_y"),
                  Rounded(a, "alpha"))};
}

// ---- Elementwise --------------------------------------------------------------------------------

// Returns for each element of X the index of the corresponding element of Y.
std::vector<size_t> Partners(const OracleArgs& a) {
  const Shape &x = a.shape(0), &y = a.shape(1);
  int64_t axis = a.Get<int64_t>("axis");
  if (axis < 0) axis = x.rank() - y.rank();
  std::vector<size_t> partner(static_cast<size_t>(x.numel()));
  for (size_t flat = 0; flat < partner.size(); ++flat) {
    int64_t rest = static_cast<int64_t>(flat), at = 0, step = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      const int64_t index = rest % x[d];
      rest /= x[d];
      if (d < axis || d >= axis + y.rank()) continue;
      at += index * step;
      step *= x[d];
    }
    partner[flat] = static_cast<size_t>(at);
  }
  return partner;
}

double Combined(std::string_view op, double x, double y) {
  if (op.starts_with("elementwise_add")) return x + y;
  if (op.starts_with("elementwise_sub")) return x - y;
  if (op.starts_with("elementwise_mul")) return x * y;
  if (op.starts_with("elementwise_div")) return x / y;
  return std::isnan(x) || x > y ? x : y;
}

// Returns the derivatives of an elementwise operator with respect to x and to y.
std::pair<double, double> Slopes(std::string_view op, double x, double y) {
  if (op.starts_with("elementwise_add")) return {1, 1};
  if (op.starts_with("elementwise_sub")) return {1, -1};
  if (op.starts_with("elementwise_mul")) return {y, x};
  if (op.starts_with("elementwise_div")) return {1 / y, -x / (y * y)};
  return {x > y ? 1 : 0, x > y ? 0 : 1};
}

Values Elementwise(const OracleArgs& a) {
  const auto partner = Partners(a);
  Value out = a.in[0];
  for (size_t i = 0; i < out.v.size(); ++i) out.v[i] = Combined(a.op, out.v[i], a[1][partner[i]]);
  return {out};
}

Values ElementwiseGrad(const OracleArgs& a) {
  const auto partner = Partners(a);
  Value gx = Zeros(a.shape(0)), gy = Zeros(a.shape(1));
  for (size_t i = 0; i < partner.size(); ++i) {
    const auto [by_x, by_y] = Slopes(a.op, a[0][i], a[1][partner[i]]);
    gx.v[i] = a[2][i] * by_x;
    gy.v[partner[i]] += a[2][i] * by_y;
  }
  return {gx, gy};
}

Values Relu(const OracleArgs& a) {
  Value out = a.in[0];
  for (double& x : out.v) x = x < 0 ? 0 : x;
  return {out};
}

Values ReluGrad(const OracleArgs& a) {
  Value gx = a.in[1];
  for (size_t i = 0; i < gx.v.size(); ++i) gx.v[i] = a[0][i] > 0 ? a[1][i] : 0;
  return {gx};
}

Values Scale(const OracleArgs& a) {
  Value out = a.in[0];
  for (double& x : out.v) x = Rounded(a, "scale") * x + Rounded(a, "bias");
  return {out};
}

Values Sum(const OracleArgs& a) {
  Value out = a.in[0];
  for (size_t k = 1; k < a.in.size(); ++k) {
    for (size_t i = 0; i < out.v.size(); ++i) out.v[i] += a[k][i];
  }
  return {out};
}

Values Mean(const OracleArgs& a) {
  double total = 0;
  for (const double x : a[0]) total += x;
  return {{{DType::kF32, {1}}, {total / static_cast<double>(a[0].size())}}};
}

Values MeanGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0));
  for (double& x : gx.v) x = a[1][0] / static_cast<double>(gx.v.size());
  return {gx};
}

Values Reshape(const OracleArgs& a) {
  auto dims = a.Get<std::vector<int64_t>>("shape");
  int64_t known = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) dims[d] = a.shape(0)[static_cast<int>(d)];
    if (dims[d] != -1) known *= dims[d];
  }
  for (int64_t& d : dims) {
    if (d == -1) d = static_cast<int64_t>(a[0].size()) / known;
  }
  return {{{a.in[0].desc.dtype, Shape(dims)}, a[0]}};
}

Values ReshapeGrad(const OracleArgs& a) { return {{a.in[0].desc, a[1]}}; }

Values FillConstant(const OracleArgs& a) {
  const auto dims = a.Get<std::vector<int64_t>>("shape");
  const auto dtype = ParseDType(a.Get<std::string>("dtype"));
  CHECK(dtype.ok());
  Value out = Zeros(Shape(dims), *dtype);
  const double value = a.Get<double>("value");
  for (double& x : out.v) x = *dtype == DType::kF32 ? static_cast<float>(value) : value;
  return {out};
}

// ---- Losses and metrics -------------------------------------------------------------------------

Values SoftmaxXent(const OracleArgs& a) {
  const int64_t rows = a.shape(0)[0], classes = a.shape(0)[1];
  const auto ignore = static_cast<double>(a.Get<int64_t>("ignore_index"));
  Value softmax = Zeros(a.shape(0)), loss = Zeros({rows, 1});
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = a[0].data() + r * classes;
    double largest = x[0], total = 0;
    for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, x[c]);
    for (int64_t c = 0; c < classes; ++c) total += std::exp(x[c] - largest);
    for (int64_t c = 0; c < classes; ++c) {
      softmax.v[static_cast<size_t>(r * classes + c)] = std::exp(x[c] - largest) / total;
    }
    const double label = a[1][static_cast<size_t>(r)];
    if (label == ignore) continue;
    loss.v[static_cast<size_t>(r)] = std::log(total) + largest - x[static_cast<size_t>(label)];
  }
  return {softmax, loss};
}

Values SoftmaxXentGrad(const OracleArgs& a) {
  const int64_t rows = a.shape(0)[0], classes = a.shape(0)[1];
  const auto ignore = static_cast<double>(a.Get<int64_t>("ignore_index"));
  Value gx = Zeros(a.shape(0));
  for (int64_t r = 0; r < rows; ++r) {
    const double label = a[1][static_cast<size_t>(r)], g = a[2][static_cast<size_t>(r)];
    if (label == ignore) continue;
    for (int64_t c = 0; c < classes; ++c) {
      const auto at = static_cast<size_t>(r * classes + c);
      gx.v[at] = (a[0][at] - (static_cast<double>(c) == label ? 1.0 : 0.0)) * g;
    }
  }
  return {gx};
}

Values Accuracy(const OracleArgs& a) {
  const int64_t rows = a.shape(0)[0], classes = a.shape(0)[1], k = a.Get<int64_t>("k");
  double correct = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* x = a[0].data() + r * classes;
    std::vector<int64_t> order(static_cast<size_t>(classes));
    for (int64_t c = 0; c < classes; ++c) order[static_cast<size_t>(c)] = c;
    std::stable_sort(order.begin(), order.end(), [x](int64_t i, int64_t j) { return x[i] > x[j]; });
    for (int64_t i = 0; i < k; ++i) {
      const auto best = static_cast<double>(order[static_cast<size_t>(i)]);
      correct += best == a[1][static_cast<size_t>(r)] ? 1 : 0;
    }
  }
  return {{{DType::kF32, {1}}, {correct / static_cast<double>(rows)}},
          {{DType::kI32, {1}}, {correct}}};
}

Values CheckFiniteAndUnscale(const OracleArgs& a) {
  Values out(a.in.begin(), a.in.end());
  out[0].v[0] = 1;
  for (size_t t = 1; t < out.size(); ++t) {
    for (double& v : out[t].v) {
      if (!std::isfinite(v)) out[0].v[0] = 0;
      v /= a[0][0];
    }
  }
  return out;
}

// Computes the outputs as in the flow chart of Paddle 2.0's update_loss_scaling_op.h.
Values UpdateLossScaling(const OracleArgs& a) {
  Value scale = a.in[1], good = a.in[2], bad = a.in[3];
  if (a[0][0] == 0) {
    good.v[0] = 0;
    if (++bad.v[0] >= static_cast<double>(a.Get<int64_t>("decr_every_n_nan_or_inf"))) {
      scale.v[0] = std::max(1.0, scale.v[0] * a.Get<double>("decr_ratio"));
      bad.v[0] = 0;
    }
  } else {
    bad.v[0] = 0;
    if (++good.v[0] >= static_cast<double>(a.Get<int64_t>("incr_every_n_steps"))) {
      const double grown = scale.v[0] * a.Get<double>("incr_ratio");
      scale.v[0] = grown > 3.4e38 ? scale.v[0] : grown;
      good.v[0] = 0;
    }
  }
  return {scale, good, bad};
}

struct Row {
  const char* op;
  Oracle oracle;
};

constexpr Row kRows[] = {
    {"accuracy", Accuracy},
    {"adagrad", OracleOptimizer},
    {"adam", OracleOptimizer},
    {"adamax", OracleOptimizer},
    {"adaptive_steps", OracleAdaptiveSteps},
    {"auc", OracleAuc},
    {"batch_norm", OracleBatchNorm},
    {"batch_norm_grad", OracleBatchNormGrad},
    {"batch_norm_grad_sums", OracleBatchNormGradSums},
    {"batch_norm_merge", OracleBatchNormMerge},
    {"batch_norm_moments", OracleBatchNormMoments},
    {"cast", OracleCast},
    {"cast_grad", OracleCast},
    {"check_finite_and_unscale", CheckFiniteAndUnscale},
    {"clip", OracleClip},
    {"clip_by_global_norm", OracleClipByNorm},
    {"clip_by_norm", OracleClipByNorm},
    {"clip_grad", OracleClip},
    {"concat", OracleConcat},
    {"concat_grad", OracleConcatGrad},
    {"conv2d", OracleConv2d},
    {"conv2d_grad", OracleConv2dGrad},
    {"conv2d_relu", OracleConv2dRelu},
    {"conv2d_transpose", OracleConv2dTranspose},
    {"conv2d_transpose_grad", OracleConv2dTransposeGrad},
    {"buffered_momentum", OracleBufferedMomentum},
    {"decayed_adagrad", OracleOptimizer},
    {"dgc_compress", OracleDgcCompress},
    {"dgc_update", OracleDgcUpdate},
    {"dropout", OracleDropout},
    {"elementwise_add", Elementwise},
    {"elementwise_add_grad", ElementwiseGrad},
    {"elementwise_div", Elementwise},
    {"elementwise_div_grad", ElementwiseGrad},
    {"elementwise_max", Elementwise},
    {"elementwise_max_grad", ElementwiseGrad},
    {"elementwise_mul", Elementwise},
    {"elementwise_mul_grad", ElementwiseGrad},
    {"elementwise_sub", Elementwise},
    {"elementwise_sub_grad", ElementwiseGrad},
    {"every_nth", OracleEveryNth},
    {"fc", Fc},
    {"fc_grad", FcGrad},
    {"fill_constant", FillConstant},
    {"ftrl", OracleOptimizer},
    {"fused_attention", OracleAttention},
    {"fused_attention_grad", OracleAttentionGrad},
    {"fused_bn_add_activation", OracleBatchNorm},
    {"fused_bn_add_activation_grad", OracleBatchNormGrad},
    {"fused_elementwise", OracleFusedElementwise},
    {"fused_elemwise_activation", OracleFusedElemwiseActivation},
    {"fused_elemwise_activation_grad", OracleFusedElemwiseActivationGrad},
    {"gelu", OracleActivation},
    {"gelu_grad", OracleActivationGrad},
    {"huber_loss", OracleRegressionLoss},
    {"huber_loss_grad", OracleRegressionLossGrad},
    {"l1_loss", OracleRegressionLoss},
    {"l1_loss_grad", OracleRegressionLossGrad},
    {"lamb", OracleOptimizer},
    {"lars_momentum", OracleOptimizer},
    {"layer_norm", OracleLayerNorm},
    {"layer_norm_grad", OracleLayerNormGrad},
    {"lookup_table", OracleLookupTable},
    {"lookup_table_grad", OracleLookupTableGrad},
    {"lookup_table_sparse_grad", OracleLookupTableSparseGrad},
    {"matmul", Matmul},
    {"mean", Mean},
    {"mean_grad", MeanGrad},
    {"momentum", OracleOptimizer},
    {"pool2d", OraclePool2d},
    {"pool2d_grad", OraclePool2dGrad},
    {"reduce_max", OracleReduce},
    {"reduce_max_grad", OracleReduceGrad},
    {"reduce_mean", OracleReduce},
    {"reduce_mean_grad", OracleReduceGrad},
    {"reduce_sum", OracleReduce},
    {"reduce_sum_grad", OracleReduceGrad},
    {"regularize", OracleOptimizer},
    {"relu", Relu},
    {"relu_grad", ReluGrad},
    {"reorder", OracleReorder},
    {"reshape", Reshape},
    {"reshape_grad", ReshapeGrad},
    {"rmsprop", OracleOptimizer},
    {"sample_image", OracleSampleImage},
    {"scale", Scale},
    {"sequence_pool", OracleSequencePool},
    {"sequence_pool_grad", OracleSequencePoolGrad},
    {"sgd", OracleOptimizer},
    {"sigmoid", OracleActivation},
    {"sigmoid_cross_entropy", OracleSigmoidXent},
    {"sigmoid_cross_entropy_grad", OracleSigmoidXentGrad},
    {"sigmoid_grad", OracleActivationGrad},
    {"slice", OracleSlice},
    {"slice_grad", OracleSliceGrad},
    {"softmax", OracleSoftmax},
    {"softmax_grad", OracleSoftmaxGrad},
    {"softmax_with_cross_entropy", SoftmaxXent},
    {"softmax_with_cross_entropy_grad", SoftmaxXentGrad},
    {"sparse_rows_to_dense", OracleSparseRowsToDense},
    {"split", OracleSplit},
    {"split_grad", OracleSplitGrad},
    {"square_error_cost", OracleRegressionLoss},
    {"square_error_cost_grad", OracleRegressionLossGrad},
    {"sum", Sum},
    {"sum_sparse_rows", OracleSumSparseRows},
    {"tanh", OracleActivation},
    {"tanh_grad", OracleActivationGrad},
    {"transpose", OracleTranspose},
    {"update_loss_scaling", UpdateLossScaling},
};

}  // namespace

ops::Attr OracleArgs::Find(std::string_view name) const {
  const auto it = attrs.find(name);
  if (it != attrs.end()) return it->second;
  for (const ops::AttrDef& attr : ops::FindOp(op)->attrs) {
    if (name == attr.name) return ops::ToAttr(attr.default_value);
  }
  LOG(FATAL) << op << " has no attribute " << name;
}

Oracle FindOracle(std::string_view op) {
  for (const Row& row : kRows) {
    if (op == row.op) return row.oracle;
  }
  return nullptr;
}

std::vector<Value> RunOracle(const OpCase& c, std::span<const Value> inputs) {
  const Oracle oracle = FindOracle(c.op);
  CHECK(oracle != nullptr) << c.op << " has no oracle: add one to tests/ops/oracle.cc";
  std::vector<Value> outputs = oracle(OracleArgs{c.attrs, c.op, inputs, c.body});
  for (size_t i = 0; i < outputs.size(); ++i) {
    // The loop treats i as the output slot: operators with 16-bit rows have one variable per output
    // slot.
    if (outputs[i].desc.dtype == DType::kF32) outputs[i].desc.dtype = OutputType(c, i);
  }
  return outputs;
}

}  // namespace tandem::optest
