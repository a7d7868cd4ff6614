// Binds the datasets of jobs as `tandem._core.Dataset`.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/reader/open.h"
#include "trainer/reader/open_table.h"
#include "trainer/reader/table/memory_columns.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using Ids = py::array_t<uint32_t, py::array::c_style | py::array::forcecast>;

// Converts columns of Python: a tuple (name, arrays, columns) as tandem/columns.py makes it.
std::shared_ptr<const reader::MemoryColumns> ColumnsOf(const py::tuple& given) {
  auto columns = std::make_shared<reader::MemoryColumns>();
  columns->name = given[0].cast<std::string>();
  columns->arrays = given[1].cast<bool>();
  for (const py::handle item : given[2].cast<py::list>()) {
    const auto pair = item.cast<py::tuple>();
    reader::MemoryColumn column;
    column.name = pair[0].cast<std::string>();
    column.is_text = py::isinstance<py::list>(pair[1]);
    if (column.is_text) {
      column.texts = pair[1].cast<std::vector<std::string>>();
    } else {
      const auto numbers = pair[1].cast<py::array_t<double, py::array::c_style>>();
      column.numbers.assign(numbers.data(), numbers.data() + numbers.size());
    }
    columns->columns.push_back(std::move(column));
  }
  return columns;
}

// The data of a job, which several datasets share. Thread-safe.
class JobData {
 public:
  // `directory`: base of relative paths. `columns`: the columns of a table that is in memory; null:
  // the data are in files.
  JobData(DataConfig config, const std::string& directory,
          const std::shared_ptr<const reader::MemoryColumns>& columns)
      : config_(std::move(config)),
        directory_(directory.empty() || directory.back() == '/' ? directory : directory + "/"),
        // A table is split while it is read.
        complete_(columns != nullptr ||
                  (config_.format() == "table" && reader::CheckTestData(config_).ok())),
        opened_(FileOrRaise(columns != nullptr
                                ? reader::OpenColumns(config_, columns)
                                : reader::OpenData(config_, directory_, complete_))) {}

  // Returns the data that the constructor opened.
  const reader::TrainAndTest& opened() const { return opened_; }

  // Returns the validation and test data. The first call opens the data. Null: the job names none.
  const reader::TrainAndTest* Tests() const {
    if (complete_) return &opened_;
    if (!reader::CheckTestData(config_).ok()) return nullptr;
    const MutexLock lock(mutex_);
    if (tests_ == nullptr) {
      auto tests = FileOrRaise(reader::OpenData(config_, directory_, /*with_test=*/true));
      tests.train = nullptr;  // `opened_` has the same samples
      tests_ = std::make_unique<const reader::TrainAndTest>(std::move(tests));
    }
    return tests_.get();
  }

 private:
  const DataConfig config_;
  const std::string directory_;
  const bool complete_;  // whether `opened_` has the validation and test data
  const reader::TrainAndTest opened_;
  mutable Mutex mutex_;
  mutable std::unique_ptr<const reader::TrainAndTest> tests_ TD_GUARDED_BY(mutex_);
};

// The training, validation or test samples of a job. Thread-safe. Reads release the GIL.
class OpenDataset {
 public:
  // `text`: the fields of DataConfig (proto/job.proto). For the other arguments see JobData.
  OpenDataset(const std::string& text, const std::string& directory,
              const std::optional<py::tuple>& columns) {
    const auto memory = columns ? ColumnsOf(*columns) : nullptr;
    const py::gil_scoped_release release;
    DataConfig config;
    strategy::Diagnostics diagnostics;
    strategy::ParseTextProto({"data", text}, &config, nullptr, &diagnostics);
    RaiseIfError(diagnostics.status());
    data_ = std::make_shared<const JobData>(std::move(config), directory, memory);
    source_ = &data_->opened();
    part_ = source_->train.get();
  }

  // Returns the part "train", "validation" or "test"; null: the data have no such part.
  std::shared_ptr<OpenDataset> Part(const std::string& name) const {
    const py::gil_scoped_release release;
    const bool train = name == "train";
    const reader::TrainAndTest* const source = train ? &data_->opened() : data_->Tests();
    if (source == nullptr) return nullptr;
    const auto& part = train                  ? source->train
                       : name == "validation" ? source->validation
                                              : source->test;
    if (part == nullptr) return nullptr;
    return std::shared_ptr<OpenDataset>(new OpenDataset(data_, source, part.get()));
  }

  uint32_t size() const { return part_->size(); }
  std::string describe() const { return part_->Describe(); }
  const std::vector<std::string>& columns() const { return source_->columns; }
  const std::vector<std::string>& classes() const { return source_->classes; }

  // Returns a tuple (name, element type, dimensions, limit) for each field.
  py::list Fields() const {
    py::list all;
    for (const reader::SampleField& field : part_->fields()) {
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
    for (const reader::SampleField& field : part_->fields()) {
      std::vector<int64_t> dims = {static_cast<int64_t>(numbers.size())};
      dims.insert(dims.end(), field.desc.shape.dims().begin(), field.desc.shape.dims().end());
      py::array array = NewArray({field.desc.dtype, ValueOrRaise(ParseShape(dims))});
      out.push_back(array.mutable_data());
      batch[py::str(field.name)] = std::move(array);
    }
    const py::gil_scoped_release release;
    RaiseIfError(part_->FillEpoch(epoch, numbers, out));
    return batch;
  }

 private:
  OpenDataset(std::shared_ptr<const JobData> data, const reader::TrainAndTest* source,
              const reader::Dataset* part)
      : data_(std::move(data)), source_(source), part_(part) {}

  std::shared_ptr<const JobData> data_;
  const reader::TrainAndTest* source_ = nullptr;  // data of data_
  const reader::Dataset* part_ = nullptr;         // a dataset of source_
};

}  // namespace

void BindDataset(py::module_& module) {
  py::class_<OpenDataset, std::shared_ptr<OpenDataset>>(module, "Dataset", "The samples of a job.")
      .def(py::init<const std::string&, const std::string&, const std::optional<py::tuple>&>(),
           py::arg("text"), py::arg("directory") = "", py::arg("columns") = py::none())
      .def("part", &OpenDataset::Part, py::arg("name"),
           "The part train, validation or test; None: the data have no such part.")
      .def_property_readonly("columns", &OpenDataset::columns,
                             "A line for each column of a table, or each class of images.")
      .def_property_readonly("classes", &OpenDataset::classes,
                             "The names of the classes of a directory of images.")
      .def_property_readonly("size", &OpenDataset::size)
      .def("describe", &OpenDataset::describe, "One line: where the samples come from.")
      .def("fields", &OpenDataset::Fields, "(name, type, dimensions, limit) of each field.")
      .def("batch", &OpenDataset::Batch, py::arg("ids"), py::arg("epoch") = 0,
           "The samples of these numbers: an array for each field.");
}

}  // namespace tandem::python
