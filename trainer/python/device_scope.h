// A scope with the device that holds it.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/scope.h"

namespace tandem::python {

// Backend, device and scope of one place. Lock guards the scope: runs of all plans of the scope
// exclude each other. Take it without the GIL, because a run takes the GIL for its callbacks.
class DeviceScope {
 public:
  // UNAVAILABLE, INVALID_ARGUMENT: this machine lacks the place.
  static StatusOr<std::shared_ptr<DeviceScope>> Open(const std::string& place);

  class Lock {
   public:
    explicit Lock(DeviceScope& scope) : mu_(scope.mu_) { mu_.lock(); }
    ~Lock() { mu_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::recursive_mutex& mu_;
  };

  const exec::Backend& backend() const { return backend_; }
  Device& device() { return *device_; }
  exec::Scope& scope() { return scope_; }
  CpuDevice& host() { return host_; }
  // Returns the tensor itself if it is in host memory, else a copy there.
  StatusOr<Tensor> OnHost(const Tensor& tensor);

 private:
  DeviceScope(exec::Backend backend, std::unique_ptr<Device> device)
      : backend_(backend), device_(std::move(device)), scope_(*device_) {}

  const exec::Backend backend_;
  const std::unique_ptr<Device> device_;
  CpuDevice host_;
  exec::Scope scope_;
  std::recursive_mutex mu_;  // recursive: a callback of a run may read the scope of the run
};

}  // namespace tandem::python
