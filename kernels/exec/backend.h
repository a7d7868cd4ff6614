// A kind of device: its devices and its kernels. The CPU's is built in; CUDA's comes from
// libtandem_cuda.so, opened at start, so that every program starts on a machine without CUDA.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"
#include "kernels/ops/op.h"

namespace tandem {

// What a module exports (extern "C" const BackendModule* tandem_backend_module()).
struct BackendModule {
  static constexpr int kAbi = 5;
  int abi;           // kAbi of the headers it was built with
  const char* name;  // "cuda"
  // Devices found; otherwise why not ("no NVIDIA driver: libcuda.so.1 is missing").
  StatusOr<int> (*device_count)();
  StatusOr<std::unique_ptr<Device>> (*make_device)(int index, const DeviceMemoryOptions& memory);
  std::span<const KernelRow> (*kernels)();
  // What `work` puts on the compute stream of `device`, recorded and not run; an error leaves the
  // stream as it was.
  StatusOr<std::unique_ptr<LaunchGraph>> (*record)(Device& device, const DeviceWork& work);
  StatusOr<Buffer> (*pinned)(size_t bytes);  // Backend::AllocatePinned; nullptr: of any memory
  // Backend::StartCopy.
  Status (*copy)(Device& device, const SideStream* side, void* to, const void* from, size_t bytes);
};

// Devices and kernels of one place kind.
class Backend {
 public:
  static Backend Cpu();
  // Opens `path` (empty: libtandem_cuda.so beside the running program or in ../lib).
  // UNAVAILABLE with what is missing: the module, the driver, a device, or a newer module version.
  static StatusOr<Backend> Cuda(const std::string& path);
  // The backend of `place`; device `place.index` must exist.
  static StatusOr<Backend> For(const Place& place);
  // Devices and kernels of a module that is part of the program: tests and benchmarks bring their
  // own. `module` must outlive the backend.
  static Backend Of(PlaceKind kind, const BackendModule& module) { return Backend(kind, &module); }

  PlaceKind kind() const { return kind_; }
  StatusOr<int> DeviceCount() const;
  StatusOr<std::unique_ptr<Device>> MakeDevice(int index,
                                               const DeviceMemoryOptions& memory = {}) const;
  // BackendModule::record. UNIMPLEMENTED on the CPU, where work is done by whoever starts it.
  StatusOr<std::unique_ptr<LaunchGraph>> Record(Device& device, const DeviceWork& work) const;
  // Host memory that stays where it is, so that its devices copy from and to it by themselves.
  StatusOr<Buffer> AllocatePinned(size_t bytes) const;
  // Starts a copy to the device's memory, of its own or from pinned memory: on `side`, or where
  // that is nullptr on the compute stream. UNIMPLEMENTED on the CPU.
  Status StartCopy(Device& device, const SideStream* side, void* to, const void* from,
                   size_t bytes) const;
  // Implementations in order of preference; empty when the operator has none here.
  std::span<const KernelImpl> Find(std::string_view op) const;

 private:
  explicit Backend(PlaceKind kind, const BackendModule* module) : kind_(kind), module_(module) {}
  PlaceKind kind_;
  const BackendModule* module_;  // nullptr: the CPU's own table (kernels/ops/op_table.cc)
};

}  // namespace tandem
