// Binds the reader of rows and dense variables as `tandem._core.PsReader`, for tandem.ps.Reader
// (tandem/ps_reader.py).
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pserver/client/reader.h"
#include "trainer/python/bindings.h"
#include "trainer/python/elements.h"
#include "trainer/python/errors.h"
#include "trainer/python/reader_arguments.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

// Returns an array that owns `values`, without a copy.
py::array_t<float> ArrayOf(std::vector<float> values, const std::vector<size_t>& shape) {
  using Owned = std::unique_ptr<std::vector<float>>;
  Owned owned = std::make_unique<std::vector<float>>(std::move(values));
  std::vector<size_t> strides(shape.size(), sizeof(float));
  for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  const float* const data = owned->data();
  const py::capsule owner(owned.release(),
                          [](void* p) { Owned(static_cast<std::vector<float>*>(p)).reset(); });
  return py::array_t<float>(shape, strides, data, owner);
}

// A reader that Python uses. The GIL guards the member. Several threads may read.
class PythonPsReader {
 public:
  explicit PythonPsReader(std::shared_ptr<ps::Reader> reader) : reader_(std::move(reader)) {}
  ~PythonPsReader() { Close(); }
  PythonPsReader(const PythonPsReader&) = delete;
  PythonPsReader& operator=(const PythonPsReader&) = delete;

  // Disconnects as soon as the reads in progress have ended.
  void Close() {
    std::shared_ptr<ps::Reader> reader = std::exchange(reader_, nullptr);
    const py::gil_scoped_release release;
    reader.reset();
  }

  // Returns (values [ids, dim], versions).
  py::tuple ReadRows(const std::string& table, const py::buffer& ids,
                     const std::vector<uint64_t>& min_versions) {
    const std::span<const int64_t> given = Ids(ids, "ids");
    const size_t n = given.size();
    ps::Reader::Rows rows = ValueOrRaise(RunInterruptibly(
        [&, reader = Open()] { return reader->ReadRows(table, given, min_versions); }));
    return py::make_tuple(ArrayOf(std::move(rows.values), {n, static_cast<size_t>(rows.dim)}),
                          rows.versions);
  }

  // Returns (arrays by name, versions).
  py::tuple ReadDense(const std::vector<uint64_t>& min_versions) {
    ps::Reader::Dense dense = ValueOrRaise(
        RunInterruptibly([&, reader = Open()] { return reader->ReadDense(min_versions); }));
    py::dict variables;
    for (auto& [name, values] : dense.variables) {
      const size_t n = values.size();
      variables[py::str(name)] = ArrayOf(std::move(values), {n});
    }
    return py::make_tuple(variables, dense.versions);
  }

 private:
  std::shared_ptr<ps::Reader> Open() const {
    if (reader_ != nullptr) return reader_;
    throw StatusError(FailedPrecondition("the reader of parameter servers is closed [TD1219]"));
  }

  std::shared_ptr<ps::Reader> reader_;  // null: closed
};

std::unique_ptr<PythonPsReader> Connect(const std::vector<std::string>& servers,
                                        const std::string& job, const std::string& secret,
                                        const std::optional<TlsFiles>& tls,
                                        bool insecure_allow_network, double timeout) {
  const ps::ReaderOptions options =
      ReaderOptionsOf(job, secret, tls, insecure_allow_network, timeout);
  return std::make_unique<PythonPsReader>(
      ValueOrRaise(RunInterruptibly([&] { return ps::Reader::Connect(servers, options); })));
}

}  // namespace

void BindPsReader(py::module_& module) {
  py::class_<PythonPsReader>(module, "PsReader", "Reads rows and variables of parameter servers.")
      .def(py::init(&Connect), py::kw_only(), py::arg("servers"), py::arg("job"), py::arg("secret"),
           py::arg("tls"), py::arg("insecure_allow_network"), py::arg("timeout"))
      .def("read_rows", &PythonPsReader::ReadRows, py::arg("table"), py::arg("ids"),
           py::arg("min_versions"))
      .def("read_dense", &PythonPsReader::ReadDense, py::arg("min_versions"))
      .def("close", &PythonPsReader::Close);
}

}  // namespace tandem::python
