// Binds the learning rate schedule and the sampler of jobs.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <vector>

#include "common/base/mutex.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/reader/input/sampler.h"

namespace tandem::python {
namespace {

namespace py = pybind11;
using trainer::LrSchedule;

// Makes a schedule. `text`: fields of LearningRateSchedule (proto/job.proto) in text form.
LrSchedule MakeSchedule(double learning_rate, const std::string& text, int64_t steps_total) {
  LearningRateSchedule config;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto({"schedule", text}, &config, nullptr, &diagnostics);
  RaiseIfError(diagnostics.status());
  // Rounds the learning rate to f32, because a job stores its rate as f32.
  return ValueOrRaise(
      LrSchedule::Make(config, double{static_cast<float>(learning_rate)}, steps_total));
}

// A sampler that several threads may use. Its methods release the GIL, because they may take long
// for an epoch with many samples.
class SharedSampler {
 public:
  SharedSampler(uint32_t samples, uint32_t batch, uint64_t seed, bool shuffle, bool drop_last)
      : sampler_(ValueOrRaise(reader::Sampler::Make(
            {.samples = samples,
             .global_batch = batch,
             .shuffle = shuffle,
             .seed = seed,
             .remainder = drop_last ? reader::Remainder::kDrop : reader::Remainder::kPad}))),
        steps_(sampler_.steps_per_epoch()) {}

  uint64_t steps_per_epoch() const { return steps_; }

  py::array_t<uint32_t> Batch(uint64_t epoch, uint64_t step) {
    if (step >= steps_) {
      throw StatusError(OutOfRange("step %d: an epoch has %d steps [TD1104]", step, steps_));
    }
    const std::vector<uint32_t> ids = Ids(epoch, step);
    // Passes the shape as a vector. The constructor of py::array_t with a count (pybind11 2.10)
    // reads a wrong element size from the type of numpy 2.
    return py::array_t<uint32_t>(std::vector{static_cast<py::ssize_t>(ids.size())}, ids.data());
  }

 private:
  std::vector<uint32_t> Ids(uint64_t epoch, uint64_t step) {
    const py::gil_scoped_release release;
    const MutexLock lock(mu_);
    const auto ids = sampler_.Batch(epoch, step);
    return {ids.begin(), ids.end()};
  }

  Mutex mu_;
  reader::Sampler sampler_ TD_GUARDED_BY(mu_);
  const uint64_t steps_;
};

}  // namespace

void BindSchedule(py::module_& module) {
  py::class_<LrSchedule, std::shared_ptr<LrSchedule>>(module, "LrSchedule",
                                                      "The learning rate of a step.")
      .def(py::init(&MakeSchedule), py::arg("learning_rate"), py::arg("text") = "",
           py::arg("steps_total") = 0)
      .def("at", &LrSchedule::At, py::arg("step"), "The learning rate of a step, from 0.");
  py::class_<SharedSampler>(module, "Sampler", "The samples of each step, as in jobs.")
      .def(py::init<uint32_t, uint32_t, uint64_t, bool, bool>(), py::arg("samples"),
           py::arg("batch"), py::arg("seed") = 1, py::arg("shuffle") = true,
           py::arg("drop_last") = false)
      .def_property_readonly("steps_per_epoch", &SharedSampler::steps_per_epoch)
      .def("batch", &SharedSampler::Batch, py::arg("epoch"), py::arg("step"),
           "The numbers of the samples.");
}

}  // namespace tandem::python
