#include "tests/ops/module.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tandem::optest {

StatusOr<const exec::BackendModule*> OpenModule(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unavailable("%s cannot be opened: %s", path, dlerror());
  using Entry = const exec::BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "tandem_backend_module"));
  if (entry == nullptr || entry()->abi != exec::BackendModule::kAbi) {
    return Unavailable("%s is no module of this build", path);
  }
  return entry();
}

StatusOr<const exec::BackendModule*> OpenCudaModule() {
  const char* bin = std::getenv("TANDEM_BIN_DIR");
  return OpenModule(std::string(bin == nullptr ? "build/bin" : bin) + "/../lib/libtandem_cuda.so");
}

std::span<const ops::KernelImpl> KernelsOf(const exec::BackendModule& module, std::string_view op) {
  const ops::KernelRegistration* row = RowOf(module, op);
  return row == nullptr ? std::span<const ops::KernelImpl>() : row->impls;
}

const ops::KernelRegistration* RowOf(const exec::BackendModule& module, std::string_view op) {
  for (const ops::KernelRegistration& row : module.kernels()) {
    if (op == row.op) return &row;
  }
  return nullptr;
}

}  // namespace tandem::optest
