// DLPack: the exchange of tensors between Python libraries without a copy. Source: dmlc/dlpack,
// dlpack.h, version 0.8.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "common/tensor/tensor.h"

namespace tandem::python {

// Returns the capsule "dltensor" of a tensor on the CPU. `owner` lives as long as the consumer uses
// the tensor.
pybind11::capsule DlPackCapsule(const Tensor& tensor, std::shared_ptr<void> owner);

// Returns (device type, index) as __dlpack_device__ defines them.
std::pair<int, int> DlPackDevice(const Place& place);

}  // namespace tandem::python
