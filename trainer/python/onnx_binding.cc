// Binds the import and export of ONNX models, for tandem/onnx.py.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/os/files.h"
#include "common/tensor/device.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "trainer/onnx/export/export.h"
#include "trainer/onnx/import.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/device_scope.h"
#include "trainer/python/errors.h"
#include "trainer/python/program_handle.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

onnx::ImportOptions::Loss ParseLoss(const std::string& name) {
  const auto& names = onnx::ImportOptions::kLossNames;
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found != std::end(names)) return static_cast<onnx::ImportOptions::Loss>(found - names);
  throw StatusError(
      InvalidArgument("loss is \"%s\", expected %s [TD1006]", name, absl::StrJoin(names, ", ")));
}

// Returns (program, variable of the output, arrays by variable, notes). `model` null: the model is
// in the file `name`.
py::tuple Import(const std::optional<py::bytes>& model, const std::string& name,
                 const std::string& loss, const std::string& output, const std::string& dir,
                 const std::map<std::string, std::string>& rename,
                 const std::set<std::string>& constants, const std::set<std::string>& frozen,
                 const std::set<std::string>& scalars) {
  onnx::ImportOptions options;
  options.rename = rename;
  options.constants = constants;
  options.frozen = frozen;
  options.scalars = scalars;
  options.loss = ParseLoss(loss);
  options.output = output;
  options.dir = dir;
  const std::string_view given = model.has_value() ? std::string_view(*model) : std::string_view();
  CpuDevice host;
  onnx::ImportedModel imported;
  graph::Program program;
  {
    const py::gil_scoped_release release;
    std::string file;
    if (!model.has_value()) file = FileOrRaise(ReadSmallFile(name, INT_MAX));
    imported =
        ValueOrRaise(onnx::ImportModel(model.has_value() ? given : file, name, options, host));
    // Programs that Python builds have the shapes of a batch of 1.
    pb::ProgramDef def;
    graph::ToProto(imported.program, &def);
    program = ValueOrRaise(graph::FromProto(def, 1, name));
  }
  py::dict values;
  for (const auto& [variable, tensor] : imported.tensors) {
    py::array array = NewArray(tensor.desc());
    std::memcpy(array.mutable_data(), tensor.data(), tensor.bytes());
    values[py::str(variable)] = array;
  }
  return py::make_tuple(ProgramHandle(std::move(program)), imported.output, values, imported.notes);
}

// Writes the inference form of the program, with the values of the scope.
void Export(const ProgramHandle& handle, DeviceScope& scope, const std::string& path,
            const std::vector<std::string>& outputs) {
  const graph::Program program = handle.Copy();
  const py::gil_scoped_release release;
  const DeviceScope::Lock lock(scope);
  trainer::TensorMap tensors;
  for (const graph::Var& var : program.vars()) {
    const Tensor* const value = scope.scope().Find(var.name);
    if (value != nullptr) tensors[var.name] = ValueOrRaise(scope.OnHost(*value));
  }
  const auto model = ValueOrRaise(onnx::ExportModel(program, tensors, outputs, {}));
  const auto write = [&](const std::string& to) { return WriteTextFile(to, model.bytes); };
  RaiseIfFileError(PublishFiles({{path, write}}));
}

}  // namespace

void BindOnnx(py::module_& module) {
  module.def("import_onnx", &Import, py::arg("model"), py::arg("name"), py::arg("loss"),
             py::arg("output"), py::arg("dir"), py::arg("rename"), py::arg("constants"),
             py::arg("frozen"), py::arg("scalars"));
  module.def("export_onnx", &Export, py::arg("program"), py::arg("scope"), py::arg("path"),
             py::arg("outputs"));
}

}  // namespace tandem::python
