// Binds SteppedTraining as `tandem._core.Training`, and the fields of a strategy.
#include <google/protobuf/message.h>
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/field_value.h"
#include "common/strategy/origins.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/python/program_handle.h"
#include "trainer/stepped/stepped_training.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using trainer::RankInfo;
using trainer::SteppedTraining;
using Environment = std::map<std::string, std::string>;
namespace gpb = google::protobuf;

// Adds the training to the program. Changes the version of the program only on success.
void AddTo(SteppedTraining& training, ProgramHandle& handle) {
  graph::Program program = handle.program();
  RaiseIfError(training.AddTo(&program));
  handle.Change() = std::move(program);
}

template <Status (SteppedTraining::*kMethod)()>
void Call(SteppedTraining& training) {
  const py::gil_scoped_release release;
  RaiseIfError((training.*kMethod)());
}

RankInfo RankOf(const Environment& environment) {
  return ValueOrRaise(trainer::RankFromEnv(environment));
}

py::object ValueOf(const gpb::Message& message, const gpb::FieldDescriptor& field) {
  const gpb::Reflection& r = *message.GetReflection();
  if (field.is_repeated()) {
    py::list all;
    for (int i = 0; i < r.FieldSize(message, &field); ++i) {
      all.append(strategy::FieldText(message, field, i));
    }
    return all;
  }
  switch (field.cpp_type()) {
    case gpb::FieldDescriptor::CPPTYPE_MESSAGE: {
      py::dict fields;
      const gpb::Message& group = r.GetMessage(message, &field);
      for (int i = 0; i < group.GetDescriptor()->field_count(); ++i) {
        const gpb::FieldDescriptor& inner = *group.GetDescriptor()->field(i);
        fields[py::str(inner.name())] = ValueOf(group, inner);
      }
      return fields;
    }
    case gpb::FieldDescriptor::CPPTYPE_BOOL:
      return py::bool_(r.GetBool(message, &field));
    case gpb::FieldDescriptor::CPPTYPE_INT32:
      return py::int_(r.GetInt32(message, &field));
    case gpb::FieldDescriptor::CPPTYPE_INT64:
      return py::int_(r.GetInt64(message, &field));
    case gpb::FieldDescriptor::CPPTYPE_FLOAT:
      return py::float_(r.GetFloat(message, &field));
    case gpb::FieldDescriptor::CPPTYPE_DOUBLE:
      return py::float_(r.GetDouble(message, &field));
    default:
      return py::str(strategy::FieldText(message, field));
  }
}

const gpb::Message& GroupOf(const gpb::Message& message, const gpb::FieldDescriptor& field,
                            const std::string& path) {
  if (field.cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
    return message.GetReflection()->GetMessage(message, &field);
  }
  throw StatusError(NotFound("the strategy has no field \"%s\" [TD1101]", path));
}

// Adds the fields that `message` sets to `given`, in the order of the field numbers.
void AddGiven(const gpb::Message& message, const std::string& prefix, trainer::Settings* given) {
  std::vector<const gpb::FieldDescriptor*> fields;
  const gpb::Reflection& r = *message.GetReflection();
  r.ListFields(message, &fields);
  for (const gpb::FieldDescriptor* field : fields) {
    const std::string name = prefix + field->name();
    if (field->is_repeated()) {
      std::vector<std::string> values;
      for (int i = 0; i < r.FieldSize(message, field); ++i) {
        values.push_back(strategy::FieldText(message, *field, i));
      }
      given->emplace_back(name, absl::StrJoin(values, ","));
    } else if (field->cpp_type() == gpb::FieldDescriptor::CPPTYPE_MESSAGE) {
      AddGiven(r.GetMessage(message, field), name + ".", given);
    } else {
      given->emplace_back(name, strategy::FieldText(message, *field));
    }
  }
}

// A strategy that Python sets field by field.
class StrategyFields {
 public:
  void Set(const std::string& name, const std::string& value) {
    RaiseIfError(
        strategy::ApplyOverride(&strategy_, name, value, strategy::SettingOrigin(name), &origins_));
  }
  // Returns the value of a field, or a dictionary of the fields of a group.
  py::object Get(const std::string& path) const {
    const gpb::Message* message = &strategy_;
    const gpb::FieldDescriptor* field = nullptr;
    for (const auto name : absl::StrSplit(path, '.')) {
      if (field != nullptr) message = &GroupOf(*message, *field, path);
      field = message->GetDescriptor()->FindFieldByName(std::string(name));
      if (field == nullptr) {
        throw StatusError(NotFound("the strategy has no field \"%s\" [TD1101]", path));
      }
    }
    return ValueOf(*message, *field);
  }
  std::string ToText() const { return strategy::SaveText(strategy_); }
  // Reads a strategy file. Returns the fields that the file sets, as pairs of name and text.
  trainer::Settings Load(const std::string& path) {
    const strategy::TextFile file = FileOrRaise(strategy::ReadTextFile(path));
    DistributedStrategy read;
    strategy::Origins origins;
    strategy::Diagnostics diagnostics;
    strategy::ParseTextProto(file, &read, &origins, &diagnostics);
    RaiseIfError(diagnostics.status());
    strategy_ = read;
    origins_ = origins;
    trainer::Settings given;
    AddGiven(strategy_, "", &given);
    return given;
  }

 private:
  DistributedStrategy strategy_;
  strategy::Origins origins_;
};

void BindRank(py::module_& module) {
  py::class_<RankInfo>(module, "RankInfo", "The rank of this process, from its environment.")
      .def_property_readonly("role",
                             [](const RankInfo& rank) {
                               return rank.role == trainer::Role::kPserver ? "pserver" : "trainer";
                             })
      .def_readonly("rank", &RankInfo::rank)
      .def_readonly("size", &RankInfo::size)
      .def_readonly("trainers", &RankInfo::trainers)
      .def_readonly("pservers", &RankInfo::pservers);
  module.def("rank_from_env", &RankOf, py::arg("environment"));
}

}  // namespace

void BindTraining(py::module_& module) {
  BindRank(module);
  py::class_<StrategyFields>(module, "Strategy", "The fields of a DistributedStrategy.")
      .def(py::init<>())
      .def("set", &StrategyFields::Set, py::arg("name"), py::arg("value"))
      .def("get", &StrategyFields::Get, py::arg("path"))
      .def("to_text", &StrategyFields::ToText)
      .def("load", &StrategyFields::Load, py::arg("path"));
  py::class_<SteppedTraining, std::shared_ptr<SteppedTraining>>(
      module, "Training", "One rank of a training with other ranks or pservers.")
      .def(py::init([](const trainer::Settings& settings, const Environment& environment) {
             const py::gil_scoped_release release;
             return std::shared_ptr<SteppedTraining>(
                 ValueOrRaise(SteppedTraining::Make(settings, environment)));
           }),
           py::arg("settings"), py::arg("environment"))
      .def("add_to", &AddTo, py::arg("program"))
      .def_property_readonly("joined", &SteppedTraining::joined)
      .def_property_readonly("rank",
                             [](const SteppedTraining& training) { return training.rank().rank; })
      .def_property_readonly("notes", &SteppedTraining::notes)
      .def("gather", &Call<&SteppedTraining::Gather>)
      .def("finish", &Call<&SteppedTraining::Finish>)
      .def(
          "abort",
          [](SteppedTraining& training, const std::string& why) {
            const py::gil_scoped_release release;
            training.Abort(Cancelled("%s", why));
          },
          py::arg("why"));
}

}  // namespace tandem::python
