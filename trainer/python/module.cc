// The Python module `tandem._core`: programs, plans and scopes of the C++ library.
#include <pybind11/pybind11.h>

#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "Tandem's C++ library. Use the package `tandem`, which adds layers and checks.";
  module.attr("__version__") = TANDEM_VERSION;
  tandem::python::RegisterErrors();
  tandem::python::BindOpTable(module);
  tandem::python::BindProgram(module);
  tandem::python::BindTensor(module);
  tandem::python::BindSchedule(module);
  tandem::python::BindScope(module);
  tandem::python::BindPlan(module);
}
