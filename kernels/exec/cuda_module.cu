// What libtandem_cuda.so exports: one table.
#include <vector>

#include "common/tensor/device_cuda.h"
#include "common/tensor/launch_graph_cuda.h"
#include "common/tensor/pinned_cuda.h"
#include "kernels/exec/backend.h"
#include "kernels/ops/cuda_kernels.h"

namespace tandem {
namespace {

std::span<const KernelRow> CudaKernels() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto family :
         {ActivationCudaRows, AucCudaRows, ConvCudaRows, CopyCudaRows, DgcCudaRows, DropoutCudaRows,
          ElementwiseCudaRows, FusedCudaRows, LookupCudaRows, LossScalingCudaRows, NormCudaRows,
          OptimizerCudaRows, PoolCudaRows, ProductCudaRows, ReduceCudaRows, SampleImageCudaRows,
          SequencePoolCudaRows, SoftmaxCudaRows, SparseRowsCudaRows}) {
      for (KernelRow& row : family()) all.push_back(std::move(row));
    }
    return all;
  }();
  return rows;
}

const BackendModule kModule = {BackendModule::kAbi, "cuda",       CudaDeviceCount,
                               MakeCudaDevice,      CudaKernels,  RecordCudaGraph,
                               PinnedMemory,        StartCudaCopy};

}  // namespace

std::span<const KernelImpl> CudaImplsOf(std::string_view op) {
  for (const KernelRow& row : CudaKernels()) {
    if (op == row.op) return row.impls;
  }
  return {};
}

}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::BackendModule*
tandem_backend_module() {
  return &tandem::kModule;
}
