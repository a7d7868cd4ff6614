// Converts between numpy arrays and tensors.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem::python {

// Returns the numpy type of an element type. numpy has no bf16, so the numpy type of bf16 is
// uint16, with the same bits. The returned object lives as long as the process.
const pybind11::dtype& NumpyType(DType dtype);
// Returns the element type that corresponds to the numpy type of `array`. INVALID_ARGUMENT: no
// element type corresponds to this numpy type.
StatusOr<DType> ElementType(const pybind11::array& array);
// Returns whether the elements of `array` have the type `dtype`, in the byte order of this machine.
bool HasType(const pybind11::array& array, DType dtype);

// Returns a new array with the type and shape of `desc`. Its elements are not initialised.
pybind11::array NewArray(const TensorDesc& desc);
// Returns a row-major array on `memory`, which `owner` keeps alive. `memory` null: like NewArray.
// The strides are given, because pybind11 2.10 does not know the size of an element of numpy 2.
pybind11::array ArrayOf(const TensorDesc& desc, const void* memory, pybind11::handle owner);

// Returns whether `value` is a row-major numpy array with numpy's own type object of `desc.dtype`
// and with the shape of `desc`, so that its memory can be copied to such a tensor. False says
// nothing about other arrays: ArrayFor accepts more.
bool IsPlain(const TensorDesc& desc, pybind11::handle value);
// Returns `value` as a row-major array with the element type and the shape of `desc`. Copies a
// numpy array only if it is not row-major. Converts a value that is no numpy array.
// INVALID_ARGUMENT: the value has another shape, or is an array of another type; the message begins
// with `name`.
StatusOr<pybind11::array> ArrayFor(const TensorDesc& desc, pybind11::handle value,
                                   const std::string& name);

}  // namespace tandem::python
