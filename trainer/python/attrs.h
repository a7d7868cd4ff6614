// Converts the attributes of operators between Python and C++.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "kernels/ops/core/op.h"

namespace tandem::python {

// Returns the value as None, bool, int, float, str or a list of int or float.
pybind11::object ToPython(const ops::Attr& value);

// Converts the attributes `given` to the types that `def` declares. An int becomes a float if `def`
// declares a float. If `def` lacks an attribute, the attribute is converted according to its Python
// type, and graph::AppendOp later rejects it. INVALID_ARGUMENT: a value does not have the declared
// type; the message names the operator and the attribute.
StatusOr<ops::AttrMap> AttrsFromPython(const ops::OpDef& def, const pybind11::dict& given);

}  // namespace tandem::python
