// Defines the table of functions (BackendModule) that libtandem_cuda.so exports.
#include <vector>

#include "common/tensor/device_cuda.h"
#include "common/tensor/launch_graph_cuda.h"
#include "common/tensor/pinned_cuda.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/finite_search_cuda.h"
#include "kernels/ops/cuda/cuda_kernels.h"

namespace tandem::exec {
namespace {

std::span<const ops::KernelRegistration> CudaKernels() {
  static const std::vector<ops::KernelRegistration> rows = [] {
    std::vector<ops::KernelRegistration> all;
    for (const auto family :
         {ops::ActivationCudaRows, ops::AucCudaRows,         ops::BatchNormCudaRows,
          ops::ConvCudaRows,       ops::CopyCudaRows,        ops::DgcCudaRows,
          ops::DropoutCudaRows,    ops::ElementwiseCudaRows, ops::FusedCudaRows,
          ops::LayerNormCudaRows,  ops::LookupCudaRows,      ops::LossScalingCudaRows,
          ops::OptimizerCudaRows,  ops::PoolCudaRows,        ops::ProductCudaRows,
          ops::ReduceCudaRows,     ops::SampleImageCudaRows, ops::SequencePoolCudaRows,
          ops::SoftmaxCudaRows,    ops::SparseRowsCudaRows,  ops::SyncBatchNormCudaRows}) {
      for (ops::KernelRegistration& row : family()) all.push_back(std::move(row));
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

}  // namespace tandem::exec

namespace tandem::ops {

std::span<const KernelImpl> CudaImplsOf(std::string_view op) {
  for (const KernelRegistration& row : exec::CudaKernels()) {
    if (op == row.op) return row.impls;
  }
  return {};
}

}  // namespace tandem::ops

extern "C" __attribute__((visibility("default"))) const tandem::exec::BackendModule*
tandem_backend_module() {
  return &tandem::exec::kModule;
}
