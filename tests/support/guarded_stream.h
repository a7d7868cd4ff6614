// Interface of the side streams of the stand-in device (guarded_device_module.cc) for the stand-in
// NCCL (fake_nccl.cc), which is a separate library.
#pragma once

#include <functional>

namespace tandem {

// The object that SideStream::handle() of the stand-in device points to.
class GuardedStream {
 public:
  // Runs `job` after all earlier jobs, on the thread of the stream. The memory of the device is
  // accessible there.
  virtual void Put(std::function<void()> job) = 0;

 protected:
  ~GuardedStream() = default;
};

}  // namespace tandem
