// What libtandem_cuda.so exports: one table.
#include <vector>

#include "common/tensor/device_cuda.h"
#include "kernels/exec/backend.h"
#include "kernels/ops/cuda_kernels.h"

namespace tandem {
namespace {

std::span<const KernelRow> CudaKernels() {
  static const std::vector<KernelRow> rows = {
      {"sgd", {{"cuda", PrepareSgdCuda}}},
  };
  return rows;
}

const BackendModule kModule = {BackendModule::kAbi, "cuda", CudaDeviceCount, MakeCudaDevice,
                               CudaKernels};

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::BackendModule*
tandem_backend_module() {
  return &tandem::kModule;
}
