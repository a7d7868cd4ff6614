// Arrays of numpy and tensors.
#pragma once

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem::python {

// The numpy type of an element type. numpy has no bf16; its bits are uint16.
pybind11::dtype NumpyType(DType dtype);
// Returns the element type of an array. INVALID_ARGUMENT: no element type has this numpy type.
StatusOr<DType> ElementType(const pybind11::array& array);
// Whether the elements of `array` have the type `dtype`, in the byte order of this machine.
bool HasType(const pybind11::array& array, DType dtype);

// Returns a new array with this description, not initialised.
pybind11::array NewArray(const TensorDesc& desc);

// Returns `value` as a row-major array of elements `desc.dtype` and shape `desc.shape`. An array of
// numpy is copied only if it is not row-major; anything else is converted. INVALID_ARGUMENT:
// another shape, or an array with another type. `name` begins the message.
StatusOr<pybind11::array> ArrayFor(const TensorDesc& desc, pybind11::handle value,
                                   const std::string& name);

}  // namespace tandem::python
