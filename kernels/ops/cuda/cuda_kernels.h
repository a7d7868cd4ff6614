// Declares the functions that list the CUDA kernels of each family, for the table in
// kernels/exec/cuda_module.cu. Part of libtandem_cuda.so only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

std::vector<KernelRegistration> ActivationCudaRows();     // see ops/elementwise/activation_cuda.cu
std::vector<KernelRegistration> AucCudaRows();            // see ops/reduce/auc_cuda.cu
std::vector<KernelRegistration> BatchNormCudaRows();      // see ops/norm/batch_norm_cuda.cu
std::vector<KernelRegistration> ConvCudaRows();           // see ops/conv/conv_cuda.cu
std::vector<KernelRegistration> CopyCudaRows();           // see ops/shape/copy_cuda.cu
std::vector<KernelRegistration> DgcCudaRows();            // see ops/update/dgc_cuda.cu
std::vector<KernelRegistration> DropoutCudaRows();        // see ops/elementwise/dropout_cuda.cu
std::vector<KernelRegistration> ElementwiseCudaRows();    // see ops/elementwise/elementwise_cuda.cu
std::vector<KernelRegistration> FusedCudaRows();          // see ops/fused/fused_elementwise_cuda.cu
std::vector<KernelRegistration> LookupCudaRows();         // see ops/rows/lookup_table_cuda.cu
std::vector<KernelRegistration> LossScalingCudaRows();    // see ops/update/loss_scaling_cuda.cu
std::vector<KernelRegistration> LayerNormCudaRows();      // see ops/norm/layer_norm_cuda.cu
std::vector<KernelRegistration> OptimizerCudaRows();      // see ops/update/optimizer_cuda.cu
std::vector<KernelRegistration> PoolCudaRows();           // see ops/conv/pool2d_cuda.cu
std::vector<KernelRegistration> ProductCudaRows();        // see ops/product/product_cuda.cu
std::vector<KernelRegistration> ReduceCudaRows();         // see ops/reduce/reduce_cuda.cu
std::vector<KernelRegistration> SampleImageCudaRows();    // see ops/conv/sample_image_cuda.cu
std::vector<KernelRegistration> SequencePoolCudaRows();   // see ops/rows/sequence_pool_cuda.cu
std::vector<KernelRegistration> SoftmaxCudaRows();        // see ops/reduce/softmax_cuda.cu
std::vector<KernelRegistration> SparseRowsCudaRows();     // see ops/rows/sparse_rows_cuda.cu
std::vector<KernelRegistration> SyncBatchNormCudaRows();  // see ops/norm/sync_batch_norm_cuda.cu

// Returns all CUDA kernels of operator `op`, for operators that are composed of other operators.
// Empty: there is no kernel.
std::span<const KernelImpl> CudaImplsOf(std::string_view op);

}  // namespace tandem::ops
