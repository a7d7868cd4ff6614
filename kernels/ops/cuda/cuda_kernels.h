// Declares the functions that list the CUDA kernels of each family, for the table in
// kernels/exec/cuda_module.cu. Part of libtandem_cuda.so only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

// Defined in kernels/ops/elementwise/activation_cuda.cu.
std::vector<KernelRegistration> ActivationCudaRows();
std::vector<KernelRegistration> AucCudaRows();  // defined in kernels/ops/reduce/auc_cuda.cu
// Defined in kernels/ops/norm/batch_norm_cuda.cu.
std::vector<KernelRegistration> BatchNormCudaRows();
std::vector<KernelRegistration> ConvCudaRows();  // defined in kernels/ops/conv/conv_cuda.cu
std::vector<KernelRegistration> CopyCudaRows();  // defined in kernels/ops/shape/copy_cuda.cu
std::vector<KernelRegistration> DgcCudaRows();   // defined in kernels/ops/update/dgc_cuda.cu
// Defined in kernels/ops/elementwise/dropout_cuda.cu.
std::vector<KernelRegistration> DropoutCudaRows();
// Defined in kernels/ops/elementwise/elementwise_cuda.cu.
std::vector<KernelRegistration> ElementwiseCudaRows();
// Defined in kernels/ops/fused/fused_elementwise_cuda.cu.
std::vector<KernelRegistration> FusedCudaRows();
// Defined in kernels/ops/rows/lookup_table_cuda.cu.
std::vector<KernelRegistration> LookupCudaRows();
// Defined in kernels/ops/update/loss_scaling_cuda.cu.
std::vector<KernelRegistration> LossScalingCudaRows();
// Defined in kernels/ops/norm/layer_norm_cuda.cu.
std::vector<KernelRegistration> LayerNormCudaRows();
// Defined in kernels/ops/update/optimizer_cuda.cu.
std::vector<KernelRegistration> OptimizerCudaRows();
std::vector<KernelRegistration> PoolCudaRows();  // defined in kernels/ops/conv/pool2d_cuda.cu
// Defined in kernels/ops/product/product_cuda.cu.
std::vector<KernelRegistration> ProductCudaRows();
std::vector<KernelRegistration> ReduceCudaRows();  // defined in kernels/ops/reduce/reduce_cuda.cu
// Defined in kernels/ops/conv/sample_image_cuda.cu.
std::vector<KernelRegistration> SampleImageCudaRows();
// Defined in kernels/ops/rows/sequence_pool_cuda.cu.
std::vector<KernelRegistration> SequencePoolCudaRows();
std::vector<KernelRegistration> SoftmaxCudaRows();  // defined in kernels/ops/reduce/softmax_cuda.cu
// Defined in kernels/ops/rows/sparse_rows_cuda.cu.
std::vector<KernelRegistration> SparseRowsCudaRows();
// Defined in kernels/ops/norm/sync_batch_norm_cuda.cu.
std::vector<KernelRegistration> SyncBatchNormCudaRows();

// Returns all CUDA kernels of operator `op`, for operators that are composed of other operators.
// Empty: there is no kernel.
std::span<const KernelImpl> CudaImplsOf(std::string_view op);

}  // namespace tandem
