#include "trainer/python/device_scope.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::python {

void ReentrantMutex::Lock() {
  const std::thread::id self = std::this_thread::get_id();
  if (owner_.load() != self) {
    mu_.Lock();
    TD_REQUIRE(depth_ == 0);
    owner_.store(self);
  }
  ++depth_;
}

void ReentrantMutex::Unlock() {
  TD_REQUIRE(depth_ > 0 && owner_.load() == std::this_thread::get_id());
  if (--depth_ > 0) return;
  owner_.store(std::thread::id());
  mu_.Unlock();
}

StatusOr<std::shared_ptr<DeviceScope>> DeviceScope::Open(const std::string& place) {
  TD_ASSIGN_OR_RETURN(const Place parsed, ParsePlace(place));
  TD_ASSIGN_OR_RETURN(const exec::Backend backend, exec::Backend::For(parsed));
  TD_ASSIGN_OR_RETURN(auto device, backend.MakeDevice(parsed.index));
  return std::shared_ptr<DeviceScope>(new DeviceScope(backend, std::move(device)));
}

StatusOr<Tensor> DeviceScope::OnHost(const Tensor& tensor) {
  if (tensor.place().kind == PlaceKind::kCpu) return tensor;
  TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor.desc(), host_));
  TD_RETURN_IF_ERROR(device_->CopyToHost(copy.data(), tensor.data(), tensor.bytes()));
  return copy;
}

}  // namespace tandem::python
