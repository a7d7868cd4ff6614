// Converts the attributes of operators between Python and C++.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "kernels/ops/core/op.h"

namespace tandem::python {

// Returns None, bool, int, float, str or a list of int or float.
pybind11::object ToPython(const ops::Attr& value);

// Returns the attributes of `given` with the types that `def` declares: an int becomes a float
// attribute if the definition has one. Names that `def` lacks are converted by the Python type;
// AppendOp rejects them. INVALID_ARGUMENT, with operator and attribute: a value has no such type.
StatusOr<ops::AttrMap> AttrsFromPython(const ops::OpDef& def, const pybind11::dict& given);

}  // namespace tandem::python
