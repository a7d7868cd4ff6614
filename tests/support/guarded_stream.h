// The side streams of the stand-in device (guarded_device_module.cc), as the stand-in NCCL
// (fake_nccl.cc), a library of its own, sees them.
#pragma once

#include <functional>

namespace tandem {

// What SideStream::handle() of the stand-in device points to.
class GuardedStream {
 public:
  // Runs `job` behind those given before, on the stream's thread, where the device's memory is
  // open.
  virtual void Put(std::function<void()> job) = 0;

 protected:
  ~GuardedStream() = default;
};

}  // namespace tandem
