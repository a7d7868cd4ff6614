#include "common/tensor/device.h"

#include <cstdlib>
#include <cstring>

#include "common/base/require.h"
#include "common/os/huge_pages.h"

namespace tandem {

void Device::Account(int64_t delta) {
  const int64_t now = in_use_.fetch_add(delta) + delta;
  TD_REQUIRE(now >= 0);
  int64_t peak = peak_.load();
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

StatusOr<std::unique_ptr<SideStream>> Device::MakeSideStream() {
  return Unimplemented("place %s does not support streams", ToString(place()));
}

StatusOr<Buffer> CpuDevice::Allocate(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = AllocatePages(rounded, kAlignment);
  if (memory == nullptr)
    return ResourceExhausted("cannot allocate %d bytes on the CPU: out of memory [TD2116]", bytes);
  const auto size = static_cast<int64_t>(rounded);
  Account(size);
  return Buffer(static_cast<std::byte*>(memory), [this, size](std::byte* p) {
    std::free(p);
    Account(-size);
  });
}

Status CpuDevice::CopyFromHost(void* device_dst, const void* host_src, size_t bytes) {
  std::memcpy(device_dst, host_src, bytes);
  return OkStatus();
}

Status CpuDevice::CopyToHost(void* host_dst, const void* device_src, size_t bytes) {
  std::memcpy(host_dst, device_src, bytes);
  return OkStatus();
}

}  // namespace tandem
