// A backend: the devices and kernels of one kind of place. The CPU backend is linked into the
// program. The CUDA backend is the library libtandem_cuda.so. A program opens this library at run
// time, so the program also starts on a machine without CUDA.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"
#include "kernels/exec/roofline.h"
#include "kernels/ops/core/op.h"

namespace tandem::exec {

// A search for elements that are not finite (check_nan_inf). `failed` and `first` point to device
// memory. The caller sets these values to kNone before the first search.
struct NonFiniteScan {
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct Floats {
    const void* data;
    DType dtype;  // element type: f32, f16 or bf16
    int64_t numel;
  };
  // The number of this search, larger than the numbers of all earlier searches. The search of an
  // operator's inputs has the same number as the search of its outputs.
  uint64_t number;
  std::span<const Floats> tensors;
  // false: searches the outputs of an operator, and sets `failed` to `number` if an element is not
  // finite. Skips the search if `failed` is below `number`, because an earlier search found such an
  // element. true: searches the inputs of the operator, but only if `failed` equals `number`.
  bool inputs;
  uint64_t* failed;
  uint64_t* first;  // by tensor: position of its first element that is not finite
};

// The functions that a backend module exports. Symbol: extern "C" const BackendModule*
// tandem_backend_module().
struct BackendModule {
  static constexpr int kAbi = 8;
  int abi;           // value of kAbi in the headers of the module's build
  const char* name;  // name of the backend: "cuda"
  // Returns the number of devices, or the reason why there are none ("no NVIDIA driver:
  // libcuda.so.1 is missing").
  StatusOr<int> (*device_count)();
  StatusOr<std::unique_ptr<Device>> (*make_device)(int index, const DeviceMemoryOptions& memory);
  std::span<const ops::KernelRegistration> (*kernels)();
  // Records the work that `work` submits to the compute stream of `device`, without running it. An
  // error leaves the stream unchanged.
  StatusOr<std::unique_ptr<LaunchGraph>> (*record)(Device& device, const DeviceWork& work);
  // Allocates pinned memory (see Backend::AllocatePinned). nullptr: the module cannot pin memory.
  StatusOr<Buffer> (*pinned)(size_t bytes);
  // Starts a copy (see Backend::StartCopy).
  Status (*copy)(Device& device, const SideStream* side, void* to, const void* from, size_t bytes);
  // Starts a search (see Backend::StartSearch).
  Status (*search)(Device& device, const NonFiniteScan& search);
  StatusOr<DeviceProperties> (*properties)(
      // Returns the properties of device `index` (see Backend::Properties). nullptr: the module
      // does not report properties.
      int index);
};

// The devices and kernels of one kind of place.
class Backend {
 public:
  static Backend Cpu();
  // Opens the CUDA module at `path`. Empty path: libtandem_cuda.so next to the running program or
  // in ../lib. UNAVAILABLE: the module, the driver or a device is missing, or the module has
  // another version.
  static StatusOr<Backend> Cuda(const std::string& path);
  // Returns the backend of `place`. Device `place.index` must exist.
  static StatusOr<Backend> For(const Place& place);
  // Makes a backend from a module that is linked into the program, for tests and benchmarks.
  // `module` must outlive the backend.
  static Backend Of(PlaceKind kind, const BackendModule& module) { return Backend(kind, &module); }

  PlaceKind kind() const { return kind_; }
  StatusOr<int> DeviceCount() const;
  StatusOr<std::unique_ptr<Device>> MakeDevice(int index,
                                               const DeviceMemoryOptions& memory = {}) const;
  // Records the work that `work` submits, without running it (BackendModule::record).
  // UNIMPLEMENTED: the device is the CPU, which runs work directly on the calling thread.
  StatusOr<std::unique_ptr<LaunchGraph>> Record(Device& device, const DeviceWork& work) const;
  // Allocates pinned host memory. Devices can copy directly from and to this memory.
  StatusOr<Buffer> AllocatePinned(size_t bytes) const;
  // Starts a copy to device memory, from device memory or pinned memory. The copy runs on `side`,
  // or on the compute stream if `side` is nullptr. UNIMPLEMENTED: the device is the CPU.
  Status StartCopy(Device& device, const SideStream* side, void* to, const void* from,
                   size_t bytes) const;
  // Submits a search for elements that are not finite to the compute stream. UNIMPLEMENTED: the
  // device is the CPU.
  Status StartSearch(Device& device, const NonFiniteScan& search) const;
  // Returns the hardware properties of a device. NOT_FOUND: the backend does not report properties.
  StatusOr<DeviceProperties> Properties(int index) const;
  // Returns the implementations of operator `op`, the preferred one first. Empty: this backend has
  // no implementation of the operator.
  std::span<const ops::KernelImpl> Find(std::string_view op) const;
  // Returns the operators (KernelRegistration::apart) whose outputs must not share memory with
  // their inputs on this backend.
  std::set<std::string> Apart() const;

 private:
  explicit Backend(PlaceKind kind, const BackendModule* module) : kind_(kind), module_(module) {}
  PlaceKind kind_;
  const BackendModule* module_;  // nullptr: the built-in table of the CPU (kernels/ops/op_table.cc)
};

}  // namespace tandem::exec
