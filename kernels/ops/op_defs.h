// Definitions and kernel lists of all operators but those of communication (comm.h). Each operator
// x has its definition kX in x.cc and its CPU kernels, XCpu(), in x_cpu.cc; op_table.cc lists them.
#pragma once

#include <vector>

#include "kernels/ops/op.h"

namespace tandem {

extern const OpDef kAccuracy;
extern const OpDef kAdagrad;
extern const OpDef kAdam;
extern const OpDef kAdamax;
extern const OpDef kAuc;
extern const OpDef kBatchNorm, kBatchNormGrad;
extern const OpDef kCheckFiniteAndUnscale, kUpdateLossScaling;
extern const OpDef kClip, kClipByGlobalNorm, kClipByNorm, kClipGrad;
extern const OpDef kConv2d, kConv2dGrad;
extern const OpDef kDecayedAdagrad;
extern const OpDef kElementwiseAdd, kElementwiseAddGrad;
extern const OpDef kElementwiseMul, kElementwiseMulGrad;
extern const OpDef kEveryNth;
extern const OpDef kFc, kFcGrad;
extern const OpDef kFillConstant;
extern const OpDef kFusedBnAddActivation, kFusedBnAddActivationGrad;
extern const OpDef kFusedElementwise;
extern const OpDef kFusedElemwiseActivation, kFusedElemwiseActivationGrad;
extern const OpDef kFtrl;
extern const OpDef kLamb;
extern const OpDef kLarsMomentum;
extern const OpDef kLookupTable, kLookupTableGrad, kLookupTableSparseGrad;
extern const OpDef kMatmul;
extern const OpDef kMean, kMeanGrad;
extern const OpDef kMomentum;
extern const OpDef kPool2d, kPool2dGrad;
extern const OpDef kRegularize;
extern const OpDef kRelu, kReluGrad;
extern const OpDef kReshape, kReshapeGrad;
extern const OpDef kRmsprop;
extern const OpDef kScale;
extern const OpDef kSequencePool, kSequencePoolGrad;
extern const OpDef kSgd;
extern const OpDef kSigmoidXent, kSigmoidXentGrad;
extern const OpDef kSoftmaxXent, kSoftmaxXentGrad;
extern const OpDef kSparseRowsToDense, kSumSparseRows;
extern const OpDef kSum;

// Kernels in order of preference, plain loops last.
std::vector<KernelImpl> AccuracyCpu();
std::vector<KernelImpl> AdagradCpu();
std::vector<KernelImpl> AdamCpu();
std::vector<KernelImpl> AdamaxCpu();
std::vector<KernelImpl> AucCpu();
std::vector<KernelImpl> BatchNormCpu();
std::vector<KernelImpl> BatchNormGradCpu();
std::vector<KernelImpl> CheckFiniteAndUnscaleCpu();
std::vector<KernelImpl> UpdateLossScalingCpu();
std::vector<KernelImpl> ClipByGlobalNormCpu();
std::vector<KernelImpl> ClipByNormCpu();
std::vector<KernelImpl> ClipCpu();
std::vector<KernelImpl> ClipGradCpu();
std::vector<KernelImpl> Conv2dCpu();
std::vector<KernelImpl> Conv2dGradCpu();
std::vector<KernelImpl> DecayedAdagradCpu();
std::vector<KernelImpl> ElementwiseAddCpu();
std::vector<KernelImpl> ElementwiseAddGradCpu();
std::vector<KernelImpl> ElementwiseMulCpu();
std::vector<KernelImpl> ElementwiseMulGradCpu();
std::vector<KernelImpl> EveryNthCpu();
std::vector<KernelImpl> FcCpu();
std::vector<KernelImpl> FcGradCpu();
std::vector<KernelImpl> FillConstantCpu();
std::vector<KernelImpl> FusedBnAddActivationCpu();
std::vector<KernelImpl> FusedBnAddActivationGradCpu();
std::vector<KernelImpl> FusedElementwiseCpu();
std::vector<KernelImpl> FusedElemwiseActivationCpu();
std::vector<KernelImpl> FusedElemwiseActivationGradCpu();
std::vector<KernelImpl> FtrlCpu();
std::vector<KernelImpl> LambCpu();
std::vector<KernelImpl> LarsMomentumCpu();
std::vector<KernelImpl> LookupTableCpu();
std::vector<KernelImpl> LookupTableGradCpu();
std::vector<KernelImpl> LookupTableSparseGradCpu();
std::vector<KernelImpl> MatmulCpu();
std::vector<KernelImpl> MeanCpu();
std::vector<KernelImpl> MeanGradCpu();
std::vector<KernelImpl> MomentumCpu();
std::vector<KernelImpl> Pool2dCpu();
std::vector<KernelImpl> Pool2dGradCpu();
std::vector<KernelImpl> RegularizeCpu();
std::vector<KernelImpl> ReluCpu();
std::vector<KernelImpl> ReluGradCpu();
std::vector<KernelImpl> ReshapeCpu();
std::vector<KernelImpl> ReshapeGradCpu();
std::vector<KernelImpl> RmspropCpu();
std::vector<KernelImpl> ScaleCpu();
std::vector<KernelImpl> SequencePoolCpu();
std::vector<KernelImpl> SequencePoolGradCpu();
std::vector<KernelImpl> SgdCpu();
std::vector<KernelImpl> SigmoidXentCpu();
std::vector<KernelImpl> SigmoidXentGradCpu();
std::vector<KernelImpl> SoftmaxXentCpu();
std::vector<KernelImpl> SoftmaxXentGradCpu();
std::vector<KernelImpl> SparseRowsToDenseCpu();
std::vector<KernelImpl> SumCpu();
std::vector<KernelImpl> SumSparseRowsCpu();

}  // namespace tandem
