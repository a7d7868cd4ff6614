// Binds the import and export of ONNX models, for tandem/onnx.py.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensor/device.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "trainer/onnx/export.h"
#include "trainer/onnx/import.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/python/program_handle.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

onnx::ImportOptions::Loss ParseLoss(const std::string& name) {
  using Loss = onnx::ImportOptions::Loss;
  if (name == "softmax") return Loss::kSoftmax;
  if (name == "sigmoid") return Loss::kSigmoid;
  if (name == "none") return Loss::kNone;
  throw StatusError(
      InvalidArgument("loss is \"%s\", expected softmax, sigmoid or none [TD1006]", name));
}

// Returns (program, variable of the output, arrays by variable, notes).
py::tuple Import(const py::bytes& model, const std::string& name, const std::string& loss,
                 const std::string& output, const std::string& dir,
                 const std::map<std::string, std::string>& rename) {
  onnx::ImportOptions options;
  options.rename = rename;
  options.loss = ParseLoss(loss);
  options.output = output;
  options.dir = dir;
  const std::string_view bytes = model;
  CpuDevice host;
  onnx::ImportedModel imported;
  graph::Program program;
  {
    const py::gil_scoped_release release;
    imported = ValueOrRaise(onnx::ImportModel(bytes, name, options, host));
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

// Returns (bytes of the model, its inputs, its outputs).
py::tuple Export(const ProgramHandle& handle, const py::dict& values,
                 const std::vector<std::string>& outputs) {
  CpuDevice host;
  trainer::TensorMap tensors;
  for (const auto& [key, value] : values) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    const std::vector<int64_t> dims(array.shape(), array.shape() + array.ndim());
    const TensorDesc desc = {ValueOrRaise(ElementType(array)), ValueOrRaise(ParseShape(dims))};
    const auto name = key.cast<std::string>();
    const py::array row_major = ValueOrRaise(ArrayFor(desc, array, name));
    Tensor tensor = ValueOrRaise(Tensor::Make(desc, host));
    std::memcpy(tensor.data(), row_major.data(), tensor.bytes());
    tensors[name] = std::move(tensor);
  }
  const graph::Program program = handle.Copy();
  onnx::ExportedModel model;
  {
    const py::gil_scoped_release release;
    model = ValueOrRaise(onnx::ExportModel(program, tensors, outputs, {}));
  }
  return py::make_tuple(py::bytes(model.bytes), model.inputs, model.outputs);
}

}  // namespace

void BindOnnx(py::module_& module) {
  module.def("import_onnx", &Import, py::arg("model"), py::arg("name"), py::arg("loss"),
             py::arg("output"), py::arg("dir"), py::arg("rename"));
  module.def("export_onnx", &Export, py::arg("program"), py::arg("values"), py::arg("outputs"));
}

}  // namespace tandem::python
