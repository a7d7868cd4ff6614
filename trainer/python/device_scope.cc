#include "trainer/python/device_scope.h"

#include <utility>

namespace tandem::python {

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
