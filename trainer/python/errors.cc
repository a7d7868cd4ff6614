#include "trainer/python/errors.h"

#include <pybind11/pybind11.h>

#include "common/base/check.h"
#include "common/base/error_text.h"

namespace tandem::python {

namespace py = pybind11;

StatusError::StatusError(Status status, bool of_file)
    : status_(std::move(status)), text_(status_.message()), of_file_(of_file) {
  CHECK(!status_.ok()) << "an exception without an error";
}

void RaiseIfError(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

void RaiseIfFileError(const Status& status) {
  if (!status.ok()) throw StatusError(status, true);
}

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      const auto [what, hint] = SplitHint(std::string(error.status().message()));
      const py::object made =
          py::module_::import("tandem.errors")
              .attr("from_status")(absl::StatusCodeToString(error.status().code()), what, hint,
                                   error.of_file());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
}

}  // namespace tandem::python
