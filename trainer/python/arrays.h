// Converts between numpy arrays and tensors.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem::python {

// Returns the numpy type of an element type. numpy has no bf16, so bf16 elements become uint16 with
// the same bits.
pybind11::dtype NumpyType(DType dtype);
// Returns the element type that corresponds to the numpy type of `array`. INVALID_ARGUMENT: no
// element type corresponds to it.
StatusOr<DType> ElementType(const pybind11::array& array);
// Returns whether the elements of `array` have the type `dtype`, in the byte order of this machine.
bool HasType(const pybind11::array& array, DType dtype);

// Returns a new array with the type and shape of `desc`. Its elements are not initialised.
pybind11::array NewArray(const TensorDesc& desc);

// Returns `value` as a row-major array with the element type and the shape of `desc`. A numpy array
// is copied only if it is not row-major. A value that is no numpy array is converted.
// INVALID_ARGUMENT: the value has another shape, or is an array of another type. The message begins
// with `name`.
StatusOr<pybind11::array> ArrayFor(const TensorDesc& desc, pybind11::handle value,
                                   const std::string& name);

}  // namespace tandem::python
