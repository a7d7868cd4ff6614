// A scope together with its device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/scope.h"

namespace tandem::python {

// The backend, the device and the scope of one place. A Lock guards the scope, so that only one
// plan of the scope runs at a time. The caller acquires a Lock without the GIL, because a run
// acquires the GIL for its callbacks.
class DeviceScope {
 public:
  // Opens the device `place` ("cpu", "cuda:0") with an empty scope. UNAVAILABLE or
  // INVALID_ARGUMENT: this machine lacks the place.
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
  // The number of training steps so far, which selects the learning rate of a schedule. Needs no
  // Lock.
  int64_t step() const { return step_.load(); }
  void set_step(int64_t step) { step_.store(step); }
  int64_t AddSteps(int64_t steps) { return step_.fetch_add(steps); }  // returns the number before
  // Returns `tensor` itself if its memory is host memory. Otherwise returns a copy in host memory.
  StatusOr<Tensor> OnHost(const Tensor& tensor);

 private:
  DeviceScope(exec::Backend backend, std::unique_ptr<Device> device)
      : backend_(backend), device_(std::move(device)), scope_(*device_) {}

  const exec::Backend backend_;
  const std::unique_ptr<Device> device_;
  CpuDevice host_;
  exec::Scope scope_;
  std::atomic<int64_t> step_{0};
  std::recursive_mutex mu_;  // recursive, because a callback of a run may read the scope
};

}  // namespace tandem::python
