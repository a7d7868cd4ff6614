#include "kernels/exec/backend.h"

#include <cstdlib>

#include "common/os/huge_pages.h"
#include "common/os/library.h"
#include "kernels/exec/cuda_module_build.h"

namespace tandem::exec {
namespace {

StatusOr<const BackendModule*> Open(const std::string& path) {
  const auto library =
      OpenLibrary(path.empty() ? LibraryPlaces("libtandem_cuda.so") : std::vector{path});
  if (!library.ok()) {
    return Unavailable("cannot open the CUDA module: %s [TD5001]; hint: run %s, or use --place=cpu",
                       std::string(library.status().message()), kBuildCudaModule);
  }
  const auto symbol = FindSymbol(*library, "tandem_backend_module");
  TD_RETURN_IF_ERROR(Annotate(symbol.status(), path + " is not a CUDA module of Tandem"));
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(*symbol);
  const BackendModule* module = entry();
  if (module->abi != BackendModule::kAbi) {
    return Unavailable(
        "the CUDA module has interface version %d, but this program needs version %d [TD5001]; "
        "hint: install the programs and the module from one build",
        module->abi, BackendModule::kAbi);
  }
  return module;
}

}  // namespace

Backend Backend::Cpu() { return Backend(PlaceKind::kCpu, nullptr); }

StatusOr<Backend> Backend::Cuda(const std::string& path) {
  TD_ASSIGN_OR_RETURN(const BackendModule* module, Open(path));
  auto count = module->device_count();
  if (!count.ok())
    return Unavailable("cannot find a CUDA device: %s [TD5002]",
                       std::string(count.status().message()));
  if (*count < 1)
    return Unavailable("no CUDA device is visible [TD5002]; hint: check CUDA_VISIBLE_DEVICES");
  return Backend(PlaceKind::kCuda, module);
}

StatusOr<Backend> Backend::For(const Place& place) {
  if (place.kind == PlaceKind::kCpu) return Cpu();
  TD_ASSIGN_OR_RETURN(Backend backend, Cuda(""));
  TD_ASSIGN_OR_RETURN(const int count, backend.DeviceCount());
  if (place.index >= count) {
    return Unavailable("place %s does not exist: there are only %d CUDA devices [TD5002]",
                       ToString(place), count);
  }
  return backend;
}

StatusOr<int> Backend::DeviceCount() const {
  return module_ == nullptr ? StatusOr<int>(1) : module_->device_count();
}

StatusOr<std::unique_ptr<Device>> Backend::MakeDevice(int index,
                                                      const DeviceMemoryOptions& memory) const {
  if (module_ != nullptr) return module_->make_device(index, memory);
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
}

StatusOr<std::unique_ptr<LaunchGraph>> Backend::Record(Device& device,
                                                       const DeviceWork& work) const {
  if (module_ == nullptr) return Unimplemented("the CPU does not support recorded graphs");
  return module_->record(device, work);
}

StatusOr<Buffer> Backend::AllocatePinned(size_t bytes) const {
  if (module_ != nullptr && module_->pinned != nullptr) return module_->pinned(bytes);
  void* const memory = AllocatePages(bytes, Device::kAlignment);
  if (memory == nullptr) return ResourceExhausted("cannot allocate %d bytes: out of memory", bytes);
  return Buffer(static_cast<std::byte*>(memory), &std::free);
}

Status Backend::StartCopy(Device& device, const SideStream* side, void* to, const void* from,
                          size_t bytes) const {
  if (module_ == nullptr) return Unimplemented("the CPU does not support asynchronous copies");
  return module_->copy(device, side, to, from, bytes);
}

Status Backend::StartSearch(Device& device, const NonFiniteScan& search) const {
  if (module_ == nullptr)
    return Unimplemented("the CPU does not support an asynchronous search for non-finite values");
  return module_->search(device, search);
}

StatusOr<DeviceProperties> Backend::Properties(int index) const {
  if (module_ == nullptr || module_->properties == nullptr)
    return NotFound("place cpu is not a CUDA device");
  return module_->properties(index);
}

std::span<const ops::KernelImpl> Backend::Find(std::string_view op) const {
  if (module_ == nullptr) {
    const ops::OpDef* def = ops::FindOp(op);
    return def == nullptr ? std::span<const ops::KernelImpl>() : def->cpu_kernels();
  }
  for (const ops::KernelRegistration& row : module_->kernels()) {
    if (op == row.op) return row.impls;
  }
  return {};
}

std::set<std::string> Backend::Apart() const {
  std::set<std::string> apart;
  if (module_ == nullptr) return apart;
  for (const ops::KernelRegistration& row : module_->kernels()) {
    if (row.apart) apart.insert(row.op);
  }
  return apart;
}

}  // namespace tandem::exec
