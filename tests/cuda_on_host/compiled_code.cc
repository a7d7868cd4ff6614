// Loads and launches kernels that were compiled at run time. The code that the stand-in NVRTC
// returns is the size of a shared library in bytes, followed by the library. The library has one
// function for each kernel. Each function has one argument, a reference to the kernel's parameters.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_host/cuda_runtime.h"

struct CudaOnHostKernel {
  void (*run)(const void* params);
  size_t bytes;  // size of the kernel's parameters in bytes
};

struct CudaOnHostLibrary {
  // The file must stay open while the library is loaded, because the dynamic loader identifies a
  // library by its name.
  int fd = -1;
  void* opened = nullptr;
  std::vector<std::unique_ptr<CudaOnHostKernel>> kernels;
};

namespace {

using tandem::cuda_on_host::Dims;

const Dims* Place(int which) {
  const Dims* const places[] = {&threadIdx, &blockIdx, &blockDim, &gridDim};
  return places[which];
}

bool Open(const char* code, size_t bytes, CudaOnHostLibrary* library) {
  library->fd = memfd_create("compiled_code", MFD_CLOEXEC);
  if (write(library->fd, code, bytes) != static_cast<ssize_t>(bytes)) return false;
  const std::string path = "/proc/self/fd/" + std::to_string(library->fd);
  library->opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library->opened != nullptr;
}

}  // namespace

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, void*, void**, unsigned,
                                void*, void**, unsigned) {
  constexpr size_t kMagic = 8;
  if (std::memcmp(code, "on host:", kMagic) != 0) return cudaErrorInvalidKernelImage;
  uint64_t bytes = 0;
  std::memcpy(&bytes, static_cast<const char*>(code) + kMagic, sizeof(bytes));
  auto loaded = std::make_unique<CudaOnHostLibrary>();
  const char* const library_file = static_cast<const char*>(code) + kMagic + sizeof(bytes);
  if (!Open(library_file, bytes, loaded.get())) return cudaErrorInvalidKernelImage;
  using SetPlace = void (*)(const Dims* (*place)(int which));
  reinterpret_cast<SetPlace>(dlsym(loaded->opened, "tandem_on_host_place"))(Place);
  *library = loaded.release();
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  void* const run = dlsym(library->opened, name);
  if (run == nullptr) return cudaErrorInvalidKernelImage;
  const auto* bytes =
      static_cast<const size_t*>(dlsym(library->opened, "tandem_on_host_param_bytes"));
  library->kernels.push_back(std::make_unique<CudaOnHostKernel>(
      CudaOnHostKernel{reinterpret_cast<void (*)(const void*)>(run), *bytes}));
  *kernel = library->kernels.back().get();
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const std::unique_ptr<CudaOnHostLibrary> owned(library);
  dlclose(owned->opened);
  close(owned->fd);
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** params) {
  const auto& compiled = *static_cast<const CudaOnHostKernel*>(kernel);
  std::vector<uint64_t> given(compiled.bytes / sizeof(uint64_t) + 1);
  std::memcpy(given.data(), params[0], compiled.bytes);
  return tandem::cuda_on_host::Put(
      config->stream, "kernel",
      [run = compiled.run, grid = config->gridDim, block = config->blockDim, given] {
        tandem::cuda_on_host::RunBlocks(grid, block, [&] { run(given.data()); });
      });
}
