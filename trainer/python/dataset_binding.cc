// Binds the datasets of jobs as `tandem._core.Dataset`.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "common/strategy/diagnostics.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/reader/open.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using Ids = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>;

// The training samples of a job. Thread-safe. Reads release the GIL.
class OpenDataset {
 public:
  // `text`: the fields of DataConfig (proto/job.proto). `directory`: base of relative paths.
  OpenDataset(const std::string& text, const std::string& directory) {
    const py::gil_scoped_release release;
    DataConfig config;
    strategy::Diagnostics diagnostics;
    strategy::ParseTextProto({"data", text}, &config, nullptr, &diagnostics);
    RaiseIfError(diagnostics.status());
    const bool bare = directory.empty() || directory.back() == '/';
    data_ = FileOrRaise(reader::OpenData(config, bare ? directory : directory + "/", false));
  }

  uint32_t size() const { return data_.train->size(); }
  std::string describe() const { return data_.train->Describe(); }

  // Returns a tuple (name, element type, dimensions, limit) for each field.
  py::list Fields() const {
    py::list all;
    for (const reader::SampleField& field : data_.train->fields()) {
      const auto dims = field.desc.shape.dims();
      all.append(py::make_tuple(field.name, Name(field.desc.dtype),
                                std::vector<int64_t>(dims.begin(), dims.end()), field.limit));
    }
    return all;
  }

  // Returns a dictionary with an array for each field of the samples `ids`.
  py::dict Batch(const Ids& ids, uint64_t epoch) const {
    const std::vector<uint32_t> numbers(ids.data(), ids.data() + ids.size());
    py::dict batch;
    std::vector<void*> out;
    for (const reader::SampleField& field : data_.train->fields()) {
      std::vector<int64_t> dims = {static_cast<int64_t>(numbers.size())};
      dims.insert(dims.end(), field.desc.shape.dims().begin(), field.desc.shape.dims().end());
      py::array array = NewArray({field.desc.dtype, ValueOrRaise(ParseShape(dims))});
      out.push_back(array.mutable_data());
      batch[py::str(field.name)] = std::move(array);
    }
    const py::gil_scoped_release release;
    RaiseIfError(data_.train->FillEpoch(epoch, numbers, out));
    return batch;
  }

 private:
  reader::TrainAndTest data_;
};

}  // namespace

void BindDataset(py::module_& module) {
  py::class_<OpenDataset, std::shared_ptr<OpenDataset>>(module, "Dataset",
                                                        "The training samples of a job.")
      .def(py::init<const std::string&, const std::string&>(), py::arg("text"),
           py::arg("directory") = "")
      .def_property_readonly("size", &OpenDataset::size)
      .def("describe", &OpenDataset::describe, "One line: where the samples come from.")
      .def("fields", &OpenDataset::Fields, "(name, type, dimensions, limit) of each field.")
      .def("batch", &OpenDataset::Batch, py::arg("ids"), py::arg("epoch") = 0,
           "The samples of these numbers: an array for each field.");
}

}  // namespace tandem::python
