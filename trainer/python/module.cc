// The Python module `tandem._core`: programs, plans and scopes of the C++ library.
#include <glog/logging.h>
#include <pybind11/pybind11.h>

#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"

namespace {

// Sends the log of the C++ library to stderr: warnings and errors. With GLOG_minloglevel=0 in the
// environment, the log also contains information.
void StartLog() {
  if (google::IsGoogleLoggingInitialized()) return;
  FLAGS_logtostderr = true;
  const pybind11::object environment = pybind11::module_::import("os").attr("environ");
  if (!environment.contains("GLOG_minloglevel")) FLAGS_minloglevel = google::GLOG_WARNING;
  google::InitGoogleLogging("tandem");
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  StartLog();
  module.doc() = "Tandem's C++ library. Use the package `tandem`, which adds layers and checks.";
  module.attr("__version__") = TANDEM_VERSION;
  tandem::python::RegisterErrors();
  tandem::python::BindOpTable(module);
  tandem::python::BindProgram(module);
  tandem::python::BindTensor(module);
  tandem::python::BindSchedule(module);
  tandem::python::BindDataset(module);
  tandem::python::BindScope(module);
  tandem::python::BindTraining(module);
  tandem::python::BindCommunicator(module);
  tandem::python::BindPserver(module);
  tandem::python::BindPsFollower(module);
  tandem::python::BindPsReader(module);
  tandem::python::BindRows(module);
  tandem::python::BindOnnx(module);
  tandem::python::BindPlan(module);
}
