// The CUDA kernels by family, for the table in kernels/exec/cuda_module.cu. Part of
// libtandem_cuda.so only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

std::vector<KernelRegistration> ActivationCudaRows();     // activation_cuda.cu
std::vector<KernelRegistration> AucCudaRows();            // auc_cuda.cu
std::vector<KernelRegistration> BatchNormCudaRows();      // batch_norm_cuda.cu
std::vector<KernelRegistration> ConvCudaRows();           // conv_cuda.cu
std::vector<KernelRegistration> CopyCudaRows();           // copy_cuda.cu
std::vector<KernelRegistration> DgcCudaRows();            // dgc_cuda.cu
std::vector<KernelRegistration> DropoutCudaRows();        // dropout_cuda.cu
std::vector<KernelRegistration> ElementwiseCudaRows();    // elementwise_cuda.cu
std::vector<KernelRegistration> FusedCudaRows();          // fused_elementwise_cuda.cu
std::vector<KernelRegistration> LookupCudaRows();         // lookup_table_cuda.cu
std::vector<KernelRegistration> LossScalingCudaRows();    // loss_scaling_cuda.cu
std::vector<KernelRegistration> LayerNormCudaRows();      // layer_norm_cuda.cu
std::vector<KernelRegistration> OptimizerCudaRows();      // optimizer_cuda.cu
std::vector<KernelRegistration> PoolCudaRows();           // pool2d_cuda.cu
std::vector<KernelRegistration> ProductCudaRows();        // product_cuda.cu
std::vector<KernelRegistration> ReduceCudaRows();         // reduce_cuda.cu
std::vector<KernelRegistration> SampleImageCudaRows();    // sample_image_cuda.cu
std::vector<KernelRegistration> SequencePoolCudaRows();   // sequence_pool_cuda.cu
std::vector<KernelRegistration> SoftmaxCudaRows();        // softmax_cuda.cu
std::vector<KernelRegistration> SparseRowsCudaRows();     // sparse_rows_cuda.cu
std::vector<KernelRegistration> SyncBatchNormCudaRows();  // sync_batch_norm_cuda.cu

// Returns all kernels of one operator; empty: it has none. For operators composed of other
// operators.
std::span<const KernelImpl> CudaImplsOf(std::string_view op);

}  // namespace tandem
