#include "kernels/exec/backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

namespace tandem {
namespace {

constexpr const char* kCudaModule = "libtandem_cuda.so";

// The folder of the running program, with a slash at the end.
std::string ProgramDir() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  if (n <= 0) return "./";
  const std::string whole(path, static_cast<size_t>(n));
  return whole.substr(0, whole.rfind('/') + 1);
}

// Opens the module and keeps it open for the life of the process: kernels are called through it.
StatusOr<const BackendModule*> Open(const std::string& path) {
  std::vector<std::string> places = {path};
  if (path.empty()) {
    places = {ProgramDir() + kCudaModule, ProgramDir() + "../lib/" + kCudaModule, kCudaModule};
  }
  std::string why;
  void* handle = nullptr;
  for (const std::string& place : places) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    const bool absent = place.find('/') != std::string::npos && access(place.c_str(), F_OK) != 0;
    if (!absent || why.empty()) why = dlerror();
  }
  if (handle == nullptr) return Unavailable("the CUDA module cannot be opened: %s", why);
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "tandem_backend_module"));
  if (entry == nullptr) {
    return Unavailable("%s is not a Tandem module: it exports no tandem_backend_module", path);
  }
  const BackendModule* module = entry();
  if (module->abi != BackendModule::kAbi) {
    return Unavailable(
        "the CUDA module has interface version %d, this program needs %d: install "
        "both from one build",
        module->abi, BackendModule::kAbi);
  }
  return module;
}

}  // namespace

Backend Backend::Cpu() { return Backend(PlaceKind::kCpu, nullptr); }

StatusOr<Backend> Backend::Cuda(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const BackendModule* module, Open(path));
  auto count = module->device_count();
  if (!count.ok()) return Unavailable("no CUDA device: %s", std::string(count.status().message()));
  if (*count < 1) return Unavailable("no CUDA device is visible (check CUDA_VISIBLE_DEVICES)");
  return Backend(PlaceKind::kCuda, module);
}

StatusOr<Backend> Backend::For(const Place& place) {
  if (place.kind == PlaceKind::kCpu) return Cpu();
  TD_ASSIGN_OR_RETURN(Backend backend, Cuda(""));
  TD_ASSIGN_OR_RETURN(const int count, backend.module_->device_count());
  if (place.index >= count) {
    return Unavailable("place %s: there are only %d CUDA devices", ToString(place), count);
  }
  return backend;
}

StatusOr<std::unique_ptr<Device>> Backend::MakeDevice(int index) const {
  if (module_ != nullptr) return module_->make_device(index);
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
}

std::span<const KernelImpl> Backend::Find(std::string_view op) const {
  if (module_ == nullptr) {
    const OpDef* def = FindOp(op);
    return def == nullptr ? std::span<const KernelImpl>() : def->cpu;
  }
  for (const KernelRow& row : module_->kernels()) {
    if (op == row.op) return row.impls;
  }
  return {};
}

}  // namespace tandem
