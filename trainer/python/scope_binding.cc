// Binds DeviceScope as `tandem._core.Scope`.
#include <pybind11/stl.h>

#include <vector>

#include "common/base/nearest.h"
#include "trainer/files/safetensors.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/device_scope.h"
#include "trainer/python/errors.h"
#include "trainer/python/program_handle.h"
#include "trainer/python/tensor_view.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using ScopePtr = std::shared_ptr<DeviceScope>;
using Names = std::vector<std::string>;

void InitializeAll(DeviceScope& scope, const ProgramHandle& handle, uint64_t seed) {
  const graph::Program program = handle.Copy();
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  RaiseIfError(exec::Initialize(program, seed, scope.scope()));
}

Names NamesOf(DeviceScope& scope) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  Names names;
  for (const auto& [name, tensor] : scope.scope().tensors()) names.push_back(name);
  return names;
}

// Returns the variable `name` of the scope. The caller must hold a DeviceScope::Lock. NOT_FOUND:
// the scope has no variable `name`.
StatusOr<Tensor> FindTensor(DeviceScope& scope, const std::string& name) {
  if (const Tensor* const tensor = scope.scope().Find(name)) return *tensor;
  Names known;
  for (const auto& [other, tensor] : scope.scope().tensors()) known.push_back(other);
  return NotFound("the scope has no variable \"%s\" [TD1205]%s", name, OrDidYouMean(name, known));
}

TensorView Find(const ScopePtr& scope, const std::string& name) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(*scope);
  return {ValueOrRaise(FindTensor(*scope, name)), scope};
}

bool Contains(DeviceScope& scope, const std::string& name) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  return scope.scope().Find(name) != nullptr;
}

void Set(DeviceScope& scope, const std::string& name, const py::array& value) {
  const DType dtype = ValueOrRaise(ElementType(value));
  const std::vector<int64_t> dims(value.shape(), value.shape() + value.ndim());
  const TensorDesc desc = {dtype, ValueOrRaise(ParseShape(dims))};
  const py::array array = ValueOrRaise(ArrayFor(desc, value, name));
  const void* const from = array.data();
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  const Tensor tensor = ValueOrRaise(scope.scope().Declare(name, desc));
  RaiseIfError(scope.device().CopyFromHost(tensor.data(), from, tensor.bytes()));
}

StatusOr<trainer::TensorMap> OnHost(DeviceScope& scope, const Names& names) {
  trainer::TensorMap tensors;
  for (const std::string& name : names) {
    TD_ASSIGN_OR_RETURN(const Tensor tensor, FindTensor(scope, name));
    TD_ASSIGN_OR_RETURN(tensors[name], scope.OnHost(tensor));
  }
  return tensors;
}

std::string Sha256(DeviceScope& scope, const Names& names) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  return ValueOrRaise(trainer::Sha256Params(ValueOrRaise(OnHost(scope, names))));
}

void Save(DeviceScope& scope, const std::string& path, const Names& names,
          const trainer::StringMap& metadata) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  RaiseIfFileError(trainer::WriteSafetensors(path, ValueOrRaise(OnHost(scope, names)), metadata));
}

// Sets the variables of the scope to the tensors of the file `path`. Returns the names of these
// variables.
Names Load(DeviceScope& scope, const std::string& path) {
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  const auto file = FileOrRaise(trainer::ReadSafetensors(path, scope.host()));
  Names names;
  for (const auto& [name, tensor] : file.tensors) {
    const StatusOr<Tensor> to = scope.scope().Declare(name, tensor.desc());
    RaiseIfError(Annotate(to.status(), path));
    RaiseIfError(scope.device().CopyFromHost(to->data(), tensor.data(), tensor.bytes()));
    names.push_back(name);
  }
  return names;
}

ScopePtr Open(const std::string& place) {
  const py::gil_scoped_release release;
  return ValueOrRaise(DeviceScope::Open(place));
}

}  // namespace

void BindScope(py::module_& module) {
  py::class_<DeviceScope, ScopePtr>(module, "Scope",
                                    "The variables that live from run to run, on one place.")
      .def(py::init(&Open), py::arg("place") = "cpu")
      .def_property_readonly("place",
                             [](DeviceScope& scope) { return ToString(scope.device().place()); })
      .def_property("step", &DeviceScope::step, &DeviceScope::set_step)
      .def("initialize", &InitializeAll, py::arg("program"), py::arg("seed"),
           "Declares all parameters and states and sets their initial values.")
      .def("names", &NamesOf)
      .def("__contains__", &Contains, py::arg("name"))
      .def("find", &Find, py::arg("name"), "The tensor of a variable, on the same memory.")
      .def("set", &Set, py::arg("name"), py::arg("value"),
           "Sets a variable, and declares it if it does not exist.")
      .def("sha256", &Sha256, py::arg("names"), "The SHA-256 that jobs print, of these variables.")
      .def("save_safetensors", &Save, py::arg("path"), py::arg("names"), py::arg("metadata"))
      .def("load_safetensors", &Load, py::arg("path"));
}

}  // namespace tandem::python
