// The CUDA kernels by family, for the table in kernels/exec/cuda_module.cu. Part of
// libtandem_cuda.so only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

std::vector<KernelRow> ActivationCudaRows();     // activation_cuda.cu
std::vector<KernelRow> AucCudaRows();            // auc_cuda.cu
std::vector<KernelRow> BatchNormCudaRows();      // batch_norm_cuda.cu
std::vector<KernelRow> ConvCudaRows();           // conv_cuda.cu
std::vector<KernelRow> CopyCudaRows();           // copy_cuda.cu
std::vector<KernelRow> DgcCudaRows();            // dgc_cuda.cu
std::vector<KernelRow> DropoutCudaRows();        // dropout_cuda.cu
std::vector<KernelRow> ElementwiseCudaRows();    // elementwise_cuda.cu
std::vector<KernelRow> FusedCudaRows();          // fused_elementwise_cuda.cu
std::vector<KernelRow> LookupCudaRows();         // lookup_table_cuda.cu
std::vector<KernelRow> LossScalingCudaRows();    // loss_scaling_cuda.cu
std::vector<KernelRow> LayerNormCudaRows();      // layer_norm_cuda.cu
std::vector<KernelRow> OptimizerCudaRows();      // optimizer_cuda.cu
std::vector<KernelRow> PoolCudaRows();           // pool2d_cuda.cu
std::vector<KernelRow> ProductCudaRows();        // product_cuda.cu
std::vector<KernelRow> ReduceCudaRows();         // reduce_cuda.cu
std::vector<KernelRow> SampleImageCudaRows();    // sample_image_cuda.cu
std::vector<KernelRow> SequencePoolCudaRows();   // sequence_pool_cuda.cu
std::vector<KernelRow> SoftmaxCudaRows();        // softmax_cuda.cu
std::vector<KernelRow> SparseRowsCudaRows();     // sparse_rows_cuda.cu
std::vector<KernelRow> SyncBatchNormCudaRows();  // sync_batch_norm_cuda.cu

// All of them for one operator; empty when it has none. For operators that are made of others.
std::span<const KernelImpl> CudaImplsOf(std::string_view op);

}  // namespace tandem
