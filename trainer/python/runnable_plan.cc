#include "trainer/python/runnable_plan.h"

#include <pthread.h>
#include <pybind11/stl.h>

#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "kernels/graph/optimizer.h"
#include "kernels/ops/elementwise/dropout.h"
#include "trainer/python/arrays.h"
#include "trainer/python/bindings.h"
#include "trainer/python/errors.h"
#include "trainer/python/feed_check.h"
#include "trainer/python/tensor_view.h"

namespace tandem::python {
namespace {

namespace py = pybind11;

// `ran`: this process has run a plan. `forked_after_run`: this process is a fork of a process that
// has run a plan. Such a process lacks the threads of its parent, so its runs would never end.
std::atomic<bool> ran{false}, forked_after_run{false};

void OnForkInChild() { forked_after_run.store(ran.load()); }

Status CheckNotForked() {
  if (!forked_after_run.load()) return OkStatus();
  return FailedPrecondition(
      "this process was forked from a process that had already run programs, so it lacks their "
      "threads [TD1219]; hint: multiprocessing.get_context(\"spawn\")");
}

// Returns the fetched variables that are temporaries, because the plan must keep them readable
// after a run.
std::vector<std::string> Temporaries(const graph::Program& program,
                                     const std::vector<std::string>& fetch) {
  std::vector<std::string> names;
  for (const std::string& name : fetch) {
    const graph::Var* const var = program.FindVar(name);
    TD_REQUIRE(var != nullptr);
    if (var->kind == graph::VarKind::kTemp) names.push_back(name);
  }
  return names;
}

}  // namespace

std::shared_ptr<RunnablePlan> RunnablePlan::Make(const ProgramHandle& handle,
                                                 std::shared_ptr<DeviceScope> scope,
                                                 const PlanRequest& request) {
  RaiseIfError(CheckNotForked());
  graph::Program program = handle.program();
  const py::gil_scoped_release release;
  std::shared_ptr<RunnablePlan> made(new RunnablePlan());
  made->scope_ = std::move(scope);
  made->batch_ = ValueOrRaise(BindFeed(program, request.feed));
  TD_REQUIRE(made->batch_ >= 1);
  RaiseIfError(CheckFetch(program, request.fetch));
  const DeviceScope::Lock lock(*made->scope_);
  exec::Scope& variables = made->scope_->scope();
  RaiseIfError(CheckInitialized(program, variables));
  made->training_ = request.training;
  exec::PlanOptions options;
  options.threads = request.threads;
  options.num_threads = request.num_threads;
  if (made->training_ != nullptr) {
    options = ValueOrRaise(made->training_->PlanOptions(request.threads));
  }
  options.fetch = Temporaries(program, request.fetch);
  exec::CommHandler* const comm = made->training_ == nullptr ? nullptr : made->training_->comm();
  made->plan_ =
      ValueOrRaise(exec::Plan::Make(program, made->scope_->backend(), variables, comm, options));
  made->executor_ = std::make_unique<exec::Executor>(*made->plan_);
  for (const auto& [name, dims] : request.feed) {
    made->inputs_[name] = ValueOrRaise(made->plan_->Get(name));
  }
  for (const std::string& name : request.fetch) {
    made->outputs_.push_back(ValueOrRaise(made->plan_->Get(name)));
  }
  if (program.FindVar(graph::kLearningRateVar) != nullptr) {
    made->learning_rate_ = variables.Find(graph::kLearningRateVar);
  }
  if (program.FindVar(ops::kDropoutPosition) != nullptr) {
    made->dropout_ = variables.Find(ops::kDropoutPosition);
  }
  return made;
}

RunnablePlan::Feed RunnablePlan::Read(const py::dict& given, bool all) const {
  Feed feed;
  size_t known = 0;
  for (const auto& [name, tensor] : inputs_) {
    const py::str key(name);
    if (!given.contains(key)) {
      if (all) throw StatusError(InvalidArgument("\"%s\" is not fed [TD1205]", name));
      continue;
    }
    ++known;
    py::array array = ValueOrRaise(ArrayFor(tensor.desc(), given[key], name));
    feed.copies.push_back({tensor.data(), array.data(), tensor.bytes()});
    feed.arrays.push_back(std::move(array));
  }
  if (known == given.size()) return feed;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs_) names.push_back(name);
  for (const auto& [key, value] : given) {
    const auto name = py::str(key).cast<std::string>();
    if (inputs_.contains(name)) continue;
    throw StatusError(
        NotFound("the plan has no input \"%s\" [TD1205]%s", name, OrDidYouMean(name, names)));
  }
  return feed;
}

// Returns the feed if each input has an array that IsPlain, and nothing else is fed.
std::optional<RunnablePlan::Feed> RunnablePlan::ReadPlain(const py::dict& given) const {
  if (given.size() != inputs_.size()) return std::nullopt;
  Feed feed;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given.ptr(), &at, &key, &value) != 0;) {
    if (!PyUnicode_Check(key)) return std::nullopt;
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) throw py::error_already_set();
    const auto input = inputs_.find(std::string_view(text, static_cast<size_t>(size)));
    if (input == inputs_.end()) return std::nullopt;
    const Tensor& tensor = input->second;
    if (!IsPlain(tensor.desc(), value)) return std::nullopt;
    feed.copies.push_back({tensor.data(), py::detail::array_proxy(value)->data, tensor.bytes()});
    feed.arrays.push_back(py::reinterpret_borrow<py::object>(value));
  }
  return feed;
}

Status RunnablePlan::Put(const Feed& feed) {
  TD_REQUIRE(feed.arrays.size() == feed.copies.size());  // the copies read the memory of
                                                         // feed.arrays
  for (const Copy& copy : feed.copies) {
    TD_RETURN_IF_ERROR(scope_->device().CopyFromHost(copy.to, copy.from, copy.bytes));
  }
  return OkStatus();
}

Status RunnablePlan::SetStep(const RunRequest& request, int iteration) {
  TD_REQUIRE(iteration >= 0 && iteration < request.iterations);
  const int64_t step = request.step + iteration;
  if (training_ != nullptr && request.schedule != nullptr) {
    return training_->BeginStep(step, request.schedule->At(step), batch_);
  }
  if (learning_rate_ != nullptr && request.schedule != nullptr) {
    const float rate = request.schedule->At(step);
    TD_RETURN_IF_ERROR(scope_->device().CopyFromHost(learning_rate_->data(), &rate, sizeof(rate)));
  }
  if (dropout_ == nullptr) return OkStatus();
  const ops::DropoutPosition at = {static_cast<int64_t>(request.seed), step, 0, batch_};
  return scope_->device().CopyFromHost(dropout_->data(), &at, sizeof(at));
}

// Prepares an iteration. The caller must not hold the GIL. A Python exception ends the run;
// RunnablePlan::Run throws this exception again.
Status RunnablePlan::BeforeIteration(const RunRequest& request, int iteration) {
  TD_RETURN_IF_ERROR(SetStep(request, iteration));
  if (request.iterations == 1 && request.before.is_none()) return OkStatus();
  const py::gil_scoped_acquire acquire;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (request.before.is_none()) return OkStatus();
    const py::object given = request.before(iteration);
    if (!given.is_none()) return Put(Read(given.cast<py::dict>(), false));
    return OkStatus();
  } catch (...) {
    raised_ = std::current_exception();
    return Cancelled("an exception in Python ended the run");
  }
}

Status RunnablePlan::Execute(const RunRequest& request) {
  ran.store(true);
  Status status = executor_->Run(
      request.iterations, [&](int iteration) { return BeforeIteration(request, iteration); });
  // Reports the failure to the other ranks, because they wait for this rank in the failed step.
  if (!status.ok() && training_ != nullptr) training_->Abort(status);
  return status;
}

int64_t RunnablePlan::Join(int64_t step) {
  TD_REQUIRE(training_ != nullptr);
  std::exception_ptr raised;
  const auto stop = [&raised] {
    const py::gil_scoped_acquire acquire;
    if (raised == nullptr && PyErr_CheckSignals() != 0) {
      raised = std::make_exception_ptr(py::error_already_set());
    }
    return raised != nullptr;
  };
  StatusOr<int64_t> first = int64_t{0};
  {
    const py::gil_scoped_release release;
    const DeviceScope::Lock lock(*scope_);
    ran.store(true);
    first = training_->Join(plan_->program(), &scope_->scope(), step, stop);
  }
  if (raised != nullptr) std::rethrow_exception(raised);
  return ValueOrRaise(std::move(first));
}

// Feeds, runs, and copies the fetched values. Throws the errors of Run. The caller holds the GIL.
void RunnablePlan::RunLocked(const Feed& feed, const RunRequest& request,
                             std::span<const Copy> results) {
  std::exception_ptr raised;
  {
    const py::gil_scoped_release release;
    const DeviceScope::Lock lock(*scope_);
    if (running_) {
      throw StatusError(
          FailedPrecondition("a callback of a run cannot run the same program again [TD1219]"));
    }
    RaiseIfError(Put(feed));
    running_ = true;
    const Status status = Execute(request);
    running_ = false;
    raised = std::exchange(raised_, nullptr);
    TD_REQUIRE(raised == nullptr || !status.ok());
    if (raised == nullptr) RaiseIfError(status);
    for (const Copy& copy : results) {
      if (raised != nullptr) break;
      RaiseIfError(scope_->device().CopyToHost(copy.to, copy.from, copy.bytes));
    }
  }
  if (raised != nullptr) std::rethrow_exception(raised);
}

std::optional<py::list> RunnablePlan::Run(const py::dict& given, RunRequest request) {
  RaiseIfError(CheckNotForked());
  if (request.iterations < 1) {
    throw StatusError(
        InvalidArgument("iterations is %d, expected at least 1 [TD1104]", request.iterations));
  }
  std::optional<Feed> feed = ReadPlain(given);
  if (!feed.has_value()) {
    if (request.plain) return std::nullopt;
    feed = Read(given, true);
  }
  py::list all(request.copy ? outputs_.size() : 0);
  absl::InlinedVector<Copy, 4> results;
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& output = outputs_[i];
    py::array array = NewArray(output.desc());
    results.push_back({array.mutable_data(), output.data(), output.bytes()});
    PyList_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i), array.release().ptr());
  }
  const int64_t steps = request.schedule == nullptr ? 0 : request.iterations;
  request.step = scope_->AddSteps(steps);
  absl::Cleanup undo = [this, steps] { scope_->AddSteps(-steps); };
  RunLocked(*feed, request, results);
  std::move(undo).Cancel();
  for (const Tensor& output : outputs_) {
    if (!request.copy) all.append(py::cast(TensorView(output, scope_)));
  }
  return all;
}

void BindPlan(py::module_& module) {
  CHECK_EQ(pthread_atfork(nullptr, nullptr, OnForkInChild), 0);
  py::class_<RunnablePlan, std::shared_ptr<RunnablePlan>>(
      module, "Plan", "A program prepared for one scope, batch, feed and fetch list.")
      .def(py::init([](const ProgramHandle& program, std::shared_ptr<DeviceScope> scope,
                       FeedShapes feed, std::vector<std::string> fetch, int threads,
                       int num_threads, std::shared_ptr<trainer::SteppedTraining> training) {
             return RunnablePlan::Make(
                 program, std::move(scope),
                 {std::move(feed), std::move(fetch), threads, num_threads, std::move(training)});
           }),
           py::arg("program"), py::arg("scope"), py::arg("feed"), py::arg("fetch"),
           py::arg("threads") = 1, py::arg("num_threads") = 1, py::arg("training") = nullptr)
      .def("join", &RunnablePlan::Join, py::arg("step"),
           "Connects to the other ranks of the training. Returns the first step.")
      .def(
          "run",
          [](RunnablePlan& plan, const py::dict& feed,
             std::shared_ptr<trainer::LrSchedule> schedule, uint64_t seed, int iterations,
             py::object before, bool copy, bool plain) {
            return plan.Run(
                feed, {std::move(schedule), seed, iterations, std::move(before), copy, plain});
          },
          py::arg("feed"), py::arg("schedule") = nullptr, py::arg("seed") = 1,
          py::arg("iterations") = 1, py::arg("before") = py::none(), py::arg("copy") = true,
          py::arg("plain") = false)
      .def_property_readonly("batch", &RunnablePlan::batch)
      .def_property_readonly("memory_bytes",
                             [](const RunnablePlan& plan) { return plan.plan().arena_bytes(); })
      .def_property_readonly("choices",
                             [](const RunnablePlan& plan) { return plan.plan().choices(); });
}

}  // namespace tandem::python
