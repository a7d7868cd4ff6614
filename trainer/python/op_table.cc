// Binds the operator table. From this table tandem/ops.py makes a Python function for each operator
// definition.
#include <pybind11/stl.h>

#include "kernels/graph/optimizer.h"
#include "kernels/ops/core/op.h"
#include "trainer/python/attrs.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

std::vector<ops::SlotDef> SlotsOf(const ops::SlotList& slots) {
  return {slots.begin(), slots.end()};
}
std::vector<ops::AttrDef> AttrsOf(const ops::OpDef& def) {
  return {def.attrs.begin(), def.attrs.end()};
}

std::vector<const ops::OpDef*> Table() { return {ops::AllOps().begin(), ops::AllOps().end()}; }

}  // namespace

void BindOpTable(py::module_& module) {
  py::class_<ops::SlotDef>(module, "SlotDefinition", "An input or output of an operator.")
      .def_readonly("name", &ops::SlotDef::name)
      .def_property_readonly("optional",
                             [](const ops::SlotDef& s) { return s.arity == ops::Arity::kOptional; })
      .def_property_readonly("many",
                             [](const ops::SlotDef& s) { return s.arity == ops::Arity::kMany; });
  py::class_<ops::AttrDef>(module, "AttrDefinition", "An attribute of an operator.")
      .def_readonly("name", &ops::AttrDef::name)
      .def_readonly("doc", &ops::AttrDef::doc)
      .def_property_readonly("required",
                             [](const ops::AttrDef& a) { return a.default_value.index() == 0; })
      .def_property_readonly(
          "default", [](const ops::AttrDef& a) { return ToPython(ops::ToAttr(a.default_value)); });
  py::class_<ops::OpDef, std::unique_ptr<ops::OpDef, py::nodelete>>(module, "OpDefinition",
                                                                    "A row of the operator table.")
      .def_readonly("type", &ops::OpDef::type)
      .def_readonly("doc", &ops::OpDef::doc)
      .def_property_readonly("inputs", [](const ops::OpDef& def) { return SlotsOf(def.inputs); })
      .def_property_readonly("outputs", [](const ops::OpDef& def) { return SlotsOf(def.outputs); })
      .def_property_readonly("attrs", AttrsOf)
      .def_property_readonly("differentiable",
                             [](const ops::OpDef& def) { return def.grad != nullptr; })
      .def_readonly("is_comm", &ops::OpDef::is_comm)
      .def_readonly("has_body", &ops::OpDef::has_body);
  module.def("op_table", Table, py::return_value_policy::reference,
             "All operators, sorted by type.");
  module.def("optimizer_types", &graph::OptimizerTypes,
             "The types that Program.append_optimizer accepts.");
  module.def(
      "optimizer_op",
      [](const std::string& type) { return ValueOrRaise(graph::OptimizerOp(type)); },
      py::arg("type"), py::return_value_policy::reference, "The operator of an optimizer.");
}

}  // namespace tandem::python
