// DLPack: the exchange of tensors between Python libraries without a copy. Source: dmlc/dlpack,
// dlpack.h, version 0.8.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "common/tensor/tensor.h"

namespace tandem::python {

// Returns a capsule named "dltensor" with a tensor on the CPU. The capsule, or later its consumer,
// keeps `owner` alive until the tensor is no longer used.
pybind11::capsule DlPackCapsule(const Tensor& tensor, std::shared_ptr<void> owner);

// Returns the device type and the device number in the form of __dlpack_device__.
std::pair<int, int> DlPackDevice(const Place& place);

}  // namespace tandem::python
