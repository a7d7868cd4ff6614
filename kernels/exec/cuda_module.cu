// Defines the table of functions (BackendModule) that libtandem_cuda.so exports.
#include <vector>

#include "common/tensor/device_cuda.h"
#include "common/tensor/launch_graph_cuda.h"
#include "common/tensor/pinned_cuda.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/finite_search_cuda.h"
#include "kernels/ops/cuda/cuda_kernels.h"

namespace tandem {
namespace {

std::span<const KernelRegistration> CudaKernels() {
  static const std::vector<KernelRegistration> rows = [] {
    std::vector<KernelRegistration> all;
    for (const auto family :
         {ActivationCudaRows,   AucCudaRows,          BatchNormCudaRows, ConvCudaRows,
          CopyCudaRows,         DgcCudaRows,          DropoutCudaRows,   ElementwiseCudaRows,
          FusedCudaRows,        LayerNormCudaRows,    LookupCudaRows,    LossScalingCudaRows,
          OptimizerCudaRows,    PoolCudaRows,         ProductCudaRows,   ReduceCudaRows,
          SampleImageCudaRows,  SequencePoolCudaRows, SoftmaxCudaRows,   SparseRowsCudaRows,
          SyncBatchNormCudaRows}) {
      for (KernelRegistration& row : family()) all.push_back(std::move(row));
    }
    return all;
  }();
  return rows;
}

StatusOr<DeviceProperties> Properties(int index) {
  const auto of = [index](cudaDeviceAttr attribute) {
    int value = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&value, attribute, index);
    return error == cudaSuccess ? value : 0;
  };
  constexpr double kKilo = 1e3;
  const DeviceProperties card = {.major = of(cudaDevAttrComputeCapabilityMajor),
                                 .minor = of(cudaDevAttrComputeCapabilityMinor),
                                 .multiprocessors = of(cudaDevAttrMultiProcessorCount),
                                 .bus_bits = of(cudaDevAttrGlobalMemoryBusWidth),
                                 .clock_hz = kKilo * of(cudaDevAttrClockRate),
                                 .memory_clock_hz = kKilo * of(cudaDevAttrMemoryClockRate)};
  const bool all = card.major > 0 && card.multiprocessors > 0 && card.bus_bits > 0 &&
                   card.clock_hz > 0 && card.memory_clock_hz > 0;
  if (!all) return NotFound("the CUDA driver does not report the properties of the device");
  return card;
}

const BackendModule kModule = {
    BackendModule::kAbi, "cuda",       CudaDeviceCount, MakeCudaDevice,  CudaKernels,
    RecordCudaGraph,     PinnedMemory, StartCudaCopy,   StartCudaSearch, Properties};

}  // namespace

std::span<const KernelImpl> CudaImplsOf(std::string_view op) {
  for (const KernelRegistration& row : CudaKernels()) {
    if (op == row.op) return row.impls;
  }
  return {};
}

}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::BackendModule*
tandem_backend_module() {
  return &tandem::kModule;
}
