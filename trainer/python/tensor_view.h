// Gives Python access to a tensor.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <utility>

#include "common/base/require.h"
#include "common/tensor/tensor.h"
#include "trainer/python/device_scope.h"

namespace tandem::python {

// A view of a variable's memory in a scope or in a plan. A later run may change the values. The
// view keeps the memory and the device alive.
class TensorView {
 public:
  TensorView(Tensor tensor, std::shared_ptr<DeviceScope> scope)
      : tensor_(std::move(tensor)), scope_(std::move(scope)) {
    TD_REQUIRE(tensor_.defined() && scope_ != nullptr);
  }

  const Tensor& tensor() const { return tensor_; }
  // Returns a copy of the values. Blocks while a plan of the scope runs.
  pybind11::array Numpy() const;
  // Returns a read-only array that shares the memory. UNIMPLEMENTED: the tensor is not on the CPU.
  pybind11::array Share() const;
  // Returns a DLPack capsule that shares the memory. UNIMPLEMENTED: the tensor is not on the CPU.
  pybind11::capsule DlPack() const;

 private:
  void RequireHost() const;

  Tensor tensor_;
  std::shared_ptr<DeviceScope> scope_;
};

}  // namespace tandem::python
