// The parts of the Python module `tandem._core`. Each function adds the classes and functions of
// one source file to `module`. module.cc calls the functions in the order of this list, because the
// signatures in a file use classes of earlier files.
#pragma once

#include <pybind11/pybind11.h>

namespace tandem::python {

void BindOpTable(pybind11::module_& module);
void BindProgram(pybind11::module_& module);
void BindTensor(pybind11::module_& module);
void BindSchedule(pybind11::module_& module);
void BindDataset(pybind11::module_& module);
void BindScope(pybind11::module_& module);
void BindTraining(pybind11::module_& module);
void BindCommunicator(pybind11::module_& module);
void BindPserver(pybind11::module_& module);
void BindPsFollower(pybind11::module_& module);
void BindPsReader(pybind11::module_& module);
void BindRows(pybind11::module_& module);
void BindOnnx(pybind11::module_& module);
void BindPlan(pybind11::module_& module);

}  // namespace tandem::python
