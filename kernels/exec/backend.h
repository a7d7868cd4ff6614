// A kind of device: its devices and its kernels. The CPU's is built in; CUDA's comes from
// libtandem_cuda.so, opened at start, so that every program starts on a machine without CUDA.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"
#include "kernels/exec/roofline.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// A search for elements that are not finite (check_nan_inf). Cells are in the device's memory, and
// begin as kNone.
struct NonFiniteScan {
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Floats {
    const void* data;
    DType dtype;  // f32, f16 or bf16
    int64_t numel;
  };
  uint64_t number;  // above those of all searches before, but for one of inputs: as its outputs'
  std::span<const Floats> tensors;
  // What an operator read, which is searched when `failed` is this number; its outputs are searched
  // unless `failed` is below it, and a find makes it this number.
  bool inputs;
  uint64_t* failed;
  uint64_t* first;  // by tensor: position of its first element that is not finite
};

// What a module exports (extern "C" const BackendModule* tandem_backend_module()).
struct BackendModule {
  static constexpr int kAbi = 7;
  int abi;           // kAbi of the headers it was built with
  const char* name;  // "cuda"
  // Devices found; otherwise why not ("no NVIDIA driver: libcuda.so.1 is missing").
  StatusOr<int> (*device_count)();
  StatusOr<std::unique_ptr<Device>> (*make_device)(int index, const DeviceMemoryOptions& memory);
  std::span<const KernelRegistration> (*kernels)();
  // What `work` puts on the compute stream of `device`, recorded and not run; an error leaves the
  // stream as it was.
  StatusOr<std::unique_ptr<LaunchGraph>> (*record)(Device& device, const DeviceWork& work);
  StatusOr<Buffer> (*pinned)(size_t bytes);  // Backend::AllocatePinned; nullptr: of any memory
  // Backend::StartCopy.
  Status (*copy)(Device& device, const SideStream* side, void* to, const void* from, size_t bytes);
  Status (*search)(Device& device, const NonFiniteScan& search);  // Backend::StartSearch
  StatusOr<DeviceProperties> (*properties)(
      int index);  // Backend::Properties; nullptr: there are none
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
  // Puts a search on the compute stream. UNIMPLEMENTED on the CPU.
  Status StartSearch(Device& device, const NonFiniteScan& search) const;
  // NOT_FOUND where devices have none.
  StatusOr<DeviceProperties> Properties(int index) const;
  // Implementations in order of preference; empty when the operator has none here.
  std::span<const KernelImpl> Find(std::string_view op) const;
  // Operators whose outputs lie apart from their inputs here (KernelRegistration::apart).
  std::set<std::string> Apart() const;

 private:
  explicit Backend(PlaceKind kind, const BackendModule* module) : kind_(kind), module_(module) {}
  PlaceKind kind_;
  const BackendModule* module_;  // nullptr: the CPU's own table (kernels/ops/op_table.cc)
};

}  // namespace tandem
