// Reference results of every operator. Plain loops in double precision follow the definitions
// (docs/reference/operators.md), not the kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/ops/op_case.h"

namespace tandem::optest {

// Arguments of an oracle. Absent inputs are empty Values (rank 0, no elements).
struct OracleArgs {
  const ops::AttrMap& attrs;
  std::string_view op;
  std::span<const Value> in;
  std::span<const ops::Op> body = {};

  bool Has(size_t i) const { return i < in.size() && !in[i].v.empty(); }
  const Shape& shape(size_t i) const { return in[i].desc.shape; }
  const std::vector<double>& operator[](size_t i) const { return in[i].v; }
  // Returns the attribute `name`, or the default of the operator's definition.
  template <typename T>
  T Get(std::string_view name) const {
    return std::get<T>(Find(name));
  }
  ops::Attr Find(std::string_view name) const;
};

// An oracle computes all outputs by position, including outputs that the row does not need.
using Oracle = std::vector<Value> (*)(const OracleArgs&);

// Returns the oracle of the operator; nullptr if there is none.
Oracle FindOracle(std::string_view op);

// Positions of tensors among the inputs or the outputs, each with the layout of the tensor
// (kernels/ops/core/image_layout.h).
using Layouts = std::vector<std::pair<size_t, std::string>>;
// Runs `oracle`, which supports only NCHW. The inputs `in` have other layouts and are converted to
// NCHW before; the outputs `out` are converted from NCHW afterwards.
std::vector<Value> InPlainLayout(const OracleArgs& a, Oracle oracle, const Layouts& in,
                                 const Layouts& out);
std::vector<Value> OracleReorder(const OracleArgs& a);

// Image operators, defined in oracle_image.cc.
std::vector<Value> OracleConv2d(const OracleArgs& a);
std::vector<Value> OracleConv2dGrad(const OracleArgs& a);
std::vector<Value> OracleConv2dRelu(const OracleArgs& a);
std::vector<Value> OracleConv2dTranspose(const OracleArgs& a);
std::vector<Value> OracleConv2dTransposeGrad(const OracleArgs& a);
std::vector<Value> OracleSampleImage(const OracleArgs& a);
std::vector<Value> OraclePool2d(const OracleArgs& a);
std::vector<Value> OraclePool2dGrad(const OracleArgs& a);

// Batch normalisation, single and fused, defined in oracle_norm.cc.
std::vector<Value> OracleBatchNorm(const OracleArgs& a);
std::vector<Value> OracleBatchNormGrad(const OracleArgs& a);
std::vector<Value> OracleBatchNormGradSums(const OracleArgs& a);
std::vector<Value> OracleBatchNormMerge(const OracleArgs& a);
std::vector<Value> OracleBatchNormMoments(const OracleArgs& a);

// Lookups in tables and their gradients, defined in oracle_embedding.cc.
std::vector<Value> OracleLookupTable(const OracleArgs& a);
std::vector<Value> OracleLookupTableGrad(const OracleArgs& a);
std::vector<Value> OracleLookupTableSparseGrad(const OracleArgs& a);
std::vector<Value> OracleSparseRowsToDense(const OracleArgs& a);
std::vector<Value> OracleSumSparseRows(const OracleArgs& a);

std::vector<Value> OracleSequencePool(const OracleArgs& a);
std::vector<Value> OracleSequencePoolGrad(const OracleArgs& a);
std::vector<Value> OracleSigmoidXent(const OracleArgs& a);
std::vector<Value> OracleSigmoidXentGrad(const OracleArgs& a);
std::vector<Value> OracleRegressionLoss(const OracleArgs& a);
std::vector<Value> OracleRegressionLossGrad(const OracleArgs& a);
std::vector<Value> OracleAuc(const OracleArgs& a);

// Attention, defined in oracle_attention.cc.
std::vector<Value> OracleAttention(const OracleArgs& a);
std::vector<Value> OracleAttentionGrad(const OracleArgs& a);

// Activations, normalised rows and reductions, defined in oracle_dense.cc.
std::vector<Value> OracleActivation(const OracleArgs& a);
std::vector<Value> OracleActivationGrad(const OracleArgs& a);
std::vector<Value> OracleDropout(const OracleArgs& a);
std::vector<Value> OracleLayerNorm(const OracleArgs& a);
std::vector<Value> OracleLayerNormGrad(const OracleArgs& a);
std::vector<Value> OracleReduce(const OracleArgs& a);
std::vector<Value> OracleReduceGrad(const OracleArgs& a);
std::vector<Value> OracleSoftmax(const OracleArgs& a);
std::vector<Value> OracleSoftmaxGrad(const OracleArgs& a);

// Operators that copy elements, defined in oracle_layout.cc.
std::vector<Value> OracleCast(const OracleArgs& a);
std::vector<Value> OracleConcat(const OracleArgs& a);
std::vector<Value> OracleConcatGrad(const OracleArgs& a);
std::vector<Value> OracleSlice(const OracleArgs& a);
std::vector<Value> OracleSliceGrad(const OracleArgs& a);
std::vector<Value> OracleSplit(const OracleArgs& a);
std::vector<Value> OracleSplitGrad(const OracleArgs& a);
std::vector<Value> OracleTranspose(const OracleArgs& a);

// Fused operators, defined in oracle_fused.cc.
std::vector<Value> OracleFusedElementwise(const OracleArgs& a);
std::vector<Value> OracleFusedElemwiseActivation(const OracleArgs& a);
std::vector<Value> OracleFusedElemwiseActivationGrad(const OracleArgs& a);

// Optimizers, penalties and limits of gradients, defined in oracle_optimizer.cc.
std::vector<Value> OracleOptimizer(const OracleArgs& a);
std::vector<Value> OracleClip(const OracleArgs& a);
std::vector<Value> OracleClipByNorm(const OracleArgs& a);

// Operators of training regimes, defined in oracle_regime.cc.
std::vector<Value> OracleEveryNth(const OracleArgs& a);
std::vector<Value> OracleAdaptiveSteps(const OracleArgs& a);
std::vector<Value> OracleBufferedMomentum(const OracleArgs& a);
std::vector<Value> OracleDgcCompress(const OracleArgs& a);
std::vector<Value> OracleDgcUpdate(const OracleArgs& a);

// Returns the attribute `name` rounded to f32, as kernels read it. State from earlier steps
// (Beta2Pow) is also f32.
inline double Rounded(const OracleArgs& a, const char* name) {
  return static_cast<float>(a.Get<double>(name));
}

inline Value Zeros(const Shape& shape, DType dtype = DType::kF32) {
  return {{dtype, shape}, std::vector<double>(static_cast<size_t>(shape.numel()), 0.0)};
}

// Computes the reference results of row `c` for these inputs.
std::vector<Value> RunOracle(const OpCase& c, std::span<const Value> inputs);

}  // namespace tandem::optest
