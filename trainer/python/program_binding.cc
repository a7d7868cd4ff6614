// Binds ProgramHandle as `tandem._core.Program`.
#include <pybind11/stl.h>

#include <map>
#include <vector>

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_parser.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/draw.h"
#include "kernels/graph/for_test.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"
#include "trainer/models/models.h"
#include "trainer/python/attrs.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/python/keywords.h"
#include "trainer/python/program_handle.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using Slots = std::vector<std::vector<std::string>>;
using NamedSlots = std::map<std::string, std::vector<std::string>>;
// The names of three variables: a parameter, its gradient, and the row numbers of the gradient. The
// third name is "" if the gradient is dense.
using Gradient = std::tuple<std::string, std::string, std::string>;

constexpr const char* kVarKinds[] = {"temp", "data", "param", "state", "remote"};
constexpr const char* kRoles[] = {"forward", "loss", "backward", "comm", "optimize", "init"};

std::vector<int64_t> DimsOf(const graph::Var& var) {
  std::vector<int64_t> dims(var.desc.shape.dims().begin(), var.desc.shape.dims().end());
  if (var.batch_leading && !dims.empty()) dims[0] = -1;
  return dims;
}

void AddVar(ProgramHandle& handle, const std::string& name, const std::string& kind,
            const std::string& dtype, std::vector<int64_t> dims, const std::string& init, float a,
            float b, bool saved) {
  graph::Var var;
  var.name = name;
  var.kind = static_cast<graph::VarKind>(Position(kVarKinds, kind, "kind"));
  var.desc.dtype = ValueOrRaise(ParseDType(dtype));
  var.batch_leading = var.kind == graph::VarKind::kData && !dims.empty() && dims[0] == -1;
  if (var.batch_leading) dims[0] = 1;
  const StatusOr<Shape> shape = ParseShape(dims);
  RaiseIfError(Annotate(shape.status(), "variable \"" + name + "\""));
  var.desc.shape = *shape;
  var.init = {static_cast<graph::Init::Kind>(Position(kInitKinds, init, "init")), a, b};
  var.saved = saved;
  RaiseIfError(handle.Change().AddVar(std::move(var)));
}

Slots InOrder(const ops::SlotList& defs, const NamedSlots& given, const std::string& type) {
  Slots slots(defs.size());
  std::vector<std::string> known;
  for (size_t s = 0; s < defs.size(); ++s) {
    known.emplace_back(defs[s].name);
    const auto it = given.find(defs[s].name);
    if (it != given.end()) slots[s] = it->second;
  }
  for (const auto& [name, vars] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw StatusError(
        InvalidArgument("%s has no slot \"%s\" [TD1206]%s", type, name, OrDidYouMean(name, known)));
  }
  return slots;
}

NamedSlots ByName(const ops::SlotList& defs, const Slots& slots) {
  TD_REQUIRE(slots.size() <= defs.size());
  NamedSlots named;
  for (size_t s = 0; s < slots.size(); ++s) named[defs[s].name] = slots[s];
  return named;
}

void Append(ProgramHandle& handle, const std::string& type, const NamedSlots& inputs,
            const NamedSlots& outputs, const py::dict& attrs, const std::string& role,
            const std::string& source, const std::string& run_if) {
  const ops::OpDef* const def = ValueOrRaise(ops::GetOp(type));
  ops::Op op{.type = type,
             .inputs = InOrder(def->inputs, inputs, type),
             .outputs = InOrder(def->outputs, outputs, type),
             .attrs = ValueOrRaise(AttrsFromPython(*def, attrs)),
             .role = static_cast<ops::OpRole>(Position(kRoles, role, "role")),
             .source = source,
             .run_if = run_if};
  RaiseIfError(graph::AppendOp(handle.Change(), std::move(op)));
}

py::dict OpToPython(const ops::Op& op) {
  const ops::OpDef* const def = ValueOrRaise(ops::GetOp(op.type));
  py::dict attrs;
  for (const auto& [name, value] : op.attrs) attrs[name.c_str()] = ToPython(value);
  py::dict row;
  row["type"] = op.type;
  row["inputs"] = ByName(def->inputs, op.inputs);
  row["outputs"] = ByName(def->outputs, op.outputs);
  row["attrs"] = attrs;
  row["role"] = kRoles[static_cast<size_t>(op.role)];
  row["source"] = op.source;
  row["run_if"] = op.run_if;
  return row;
}

py::list OpsOf(const ProgramHandle& handle) {
  py::list all;
  for (const ops::Op& op : handle.program().ops) all.append(OpToPython(op));
  return all;
}

const graph::Var& Find(const ProgramHandle& handle, const std::string& name) {
  const graph::Var* const var = handle.program().FindVar(name);
  if (var != nullptr) return *var;
  std::vector<std::string> names;
  for (const graph::Var& other : handle.program().vars()) names.push_back(other.name);
  throw StatusError(NotFound("program \"%s\" has no variable \"%s\" [TD1205]%s",
                             handle.program().name, name, OrDidYouMean(name, names)));
}

std::vector<std::string> NamesOf(const ProgramHandle& handle, const std::string& kind) {
  std::vector<std::string> names;
  for (const graph::Var* var :
       handle.program().VarsOf(static_cast<graph::VarKind>(Position(kVarKinds, kind, "kind")))) {
    names.push_back(var->name);
  }
  return names;
}

std::string ToText(const ProgramHandle& handle) {
  pb::ProgramDef def;
  graph::ToProto(handle.program(), &def);
  return strategy::SaveText(def);
}

ProgramHandle FromText(const strategy::TextFile& file) {
  pb::ProgramDef def;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto(file, &def, nullptr, &diagnostics);
  RaiseIfError(diagnostics.status());
  return ProgramHandle(ValueOrRaise(graph::FromProto(def, 1, file.name)));
}

ProgramHandle Load(const std::string& path) {
  const py::gil_scoped_release release;
  return FromText(FileOrRaise(strategy::ReadTextFile(path)));
}

void Save(const ProgramHandle& handle, const std::string& path) {
  const std::string text = ToText(handle);
  const py::gil_scoped_release release;
  RaiseIfFileError(WriteTextFile(path, text));
}

ProgramHandle FromZoo(const std::string& model, const std::map<std::string, std::string>& args) {
  const py::gil_scoped_release release;
  return ProgramHandle(ValueOrRaise(trainer::BuildModel(model, args, 1)));
}

std::vector<Gradient> Backward(ProgramHandle& handle, float loss_scale) {
  std::vector<Gradient> grads;
  for (const graph::ParamGrad& pair :
       ValueOrRaise(graph::AppendBackward(handle.Change(), loss_scale))) {
    grads.emplace_back(pair.param, pair.grad, pair.rows);
  }
  return grads;
}

void Optimize(ProgramHandle& handle, const std::string& type, const py::dict& attrs,
              const std::vector<Gradient>& grads) {
  std::vector<graph::ParamGrad> pairs;
  for (const auto& [param, grad, rows] : grads) pairs.push_back({param, grad, rows});
  RaiseIfError(graph::CheckJobOptimizer(type));
  const ops::OpDef* const def = ValueOrRaise(graph::OptimizerOp(type));
  const graph::OptimizerSpec spec = {type, ValueOrRaise(AttrsFromPython(*def, attrs))};
  RaiseIfError(graph::AppendOptimizer(handle.Change(), spec, pairs));
}

void BindVars(py::class_<ProgramHandle>& type) {
  type.def("add_var", &AddVar, py::arg("name"), py::arg("kind"), py::arg("dtype"), py::arg("dims"),
           py::arg("init") = "constant", py::arg("a") = 0.0f, py::arg("b") = 0.0f,
           py::arg("saved") = true,
           "Declares a variable of kind data, param or state. A leading -1 is the batch.")
      .def(
          "has_var",
          [](const ProgramHandle& handle, const std::string& name) {
            return handle.program().FindVar(name) != nullptr;
          },
          py::arg("name"))
      .def(
          "kind",
          [](const ProgramHandle& handle, const std::string& name) {
            return kVarKinds[static_cast<size_t>(Find(handle, name).kind)];
          },
          py::arg("name"), "temp, data, param, state or remote.")
      .def(
          "dtype",
          [](const ProgramHandle& handle, const std::string& name) {
            return Name(Find(handle, name).desc.dtype);
          },
          py::arg("name"), "f32, f16, bf16, i32, i64 or u8.")
      .def(
          "shape",
          [](const ProgramHandle& handle, const std::string& name) {
            return DimsOf(Find(handle, name));
          },
          py::arg("name"), "The dimensions for a batch of 1; -1: the batch of a data variable.")
      .def("names", &NamesOf, py::arg("kind"), "The variables of a kind, in their order.")
      .def(
          "fresh_name",
          [](const ProgramHandle& handle, const std::string& base) {
            return handle.program().FreshName(base);
          },
          py::arg("base"), "`base`, or base_1, base_2, ... if the name is used.");
}

void BindText(py::class_<ProgramHandle>& type) {
  type.def("to_text", &ToText, "The program as text (*.pbtxt).")
      .def_static(
          "from_text",
          [](const std::string& text, const std::string& source) {
            return FromText({source, text});
          },
          py::arg("text"), py::arg("source") = "<text>")
      .def_static("from_zoo", &FromZoo, py::arg("model"), py::arg("args"),
                  "The network of the model zoo that a job gets by `zoo` and `arg`.")
      .def_static("load", &Load, py::arg("path"), "Reads a program file.")
      .def("save", &Save, py::arg("path"))
      .def(
          "dump", [](const ProgramHandle& handle) { return graph::Dump(handle.program()); },
          "One line per operator, with the shapes.")
      .def(
          "draw",
          [](const ProgramHandle& handle, const std::string& title) {
            return graph::ToDot(handle.program(), title);
          },
          py::arg("title"), "The program as a DOT digraph.");
}

}  // namespace

void BindProgram(py::module_& module) {
  py::class_<ProgramHandle> type(module, "Program", "Variables, and operators in order.");
  type.def(py::init([](const std::string& name) {
             graph::Program program;
             program.name = name;
             return ProgramHandle(std::move(program));
           }),
           py::arg("name"))
      .def_property(
          "name", [](const ProgramHandle& handle) { return handle.program().name; },
          [](ProgramHandle& handle, const std::string& name) { handle.Change().name = name; })
      .def_property(
          "loss", [](const ProgramHandle& handle) { return handle.program().loss; },
          [](ProgramHandle& handle, const std::string& loss) { handle.Change().loss = loss; })
      .def_property(
          "metrics", [](const ProgramHandle& handle) { return handle.program().metrics; },
          [](ProgramHandle& handle, std::vector<std::string> metrics) {
            handle.Change().metrics = std::move(metrics);
          })
      .def_property_readonly("version", &ProgramHandle::version)
      .def("ops", &OpsOf, "The operators, in order, as dictionaries.")
      .def("append_op", &Append, py::arg("type"), py::arg("inputs"), py::arg("outputs"),
           py::arg("attrs"), py::arg("role") = "forward", py::arg("source") = "",
           py::arg("run_if") = "", "Checks the operator, appends it and declares its outputs.")
      .def("append_backward", &Backward, py::arg("loss_scale") = 1.0f,
           "Appends the gradients of `loss`. Returns (parameter, gradient, rows or '').")
      .def("append_optimizer", &Optimize, py::arg("type"), py::arg("attrs"), py::arg("gradients"))
      .def("verify",
           [](const ProgramHandle& handle) { RaiseIfError(graph::Verify(handle.program())); })
      .def("clone", [](const ProgramHandle& handle) { return ProgramHandle(handle.program()); })
      .def(
          "for_test",
          [](const ProgramHandle& handle) {
            return ProgramHandle(graph::ForTest(handle.program()));
          },
          "A copy in its evaluation form (is_test).");
  BindVars(type);
  BindText(type);
  module.def("list_models_text", &trainer::ListModelsText, "The models of the zoo, as text.");
}

}  // namespace tandem::python
