// The interface through which the stand-in NCCL (fake_nccl.cc) uses side streams of the stand-in
// device (guarded_device_module.cc). Both are separate libraries.
#pragma once

#include <functional>

namespace tandem {

// A side stream of the stand-in device. SideStream::handle() points to this object.
class GuardedStream {
 public:
  // Runs `job` on the stream's thread, after all earlier jobs. The job may access the memory of the
  // device.
  virtual void Put(std::function<void()> job) = 0;

 protected:
  ~GuardedStream() = default;
};

}  // namespace tandem
