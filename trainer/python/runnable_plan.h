// A plan of a program that Python feeds and runs.
#pragma once

#include <pybind11/numpy.h>

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/exec/executor.h"
#include "kernels/exec/plan.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/python/device_scope.h"
#include "trainer/python/program_handle.h"
#include "trainer/stepped/stepped_training.h"

namespace tandem::python {

using FeedShapes = std::map<std::string, std::vector<int64_t>>;

struct PlanRequest {
  FeedShapes feed;                 // shapes of the fed variables
  std::vector<std::string> fetch;  // fetched variables of any kind
  int threads = 1;                 // threads per kernel (PlanOptions)
  int num_threads = 1;             // threads that run operators (PlanOptions)
  // The training that added operators to the program; nullptr: the program has no other ranks. With
  // a training, `threads` may be 0: this rank's share of the processors of the host.
  std::shared_ptr<trainer::SteppedTraining> training;
};

struct RunRequest {
  std::shared_ptr<trainer::LrSchedule> schedule;  // learning rates; nullptr: unchanged rate
  uint64_t seed = 1;                              // seed of the random numbers of dropout
  int iterations = 1;
  pybind11::object before;  // called with the number of each iteration of the run; None: no call
  bool copy = true;         // true: results are copies; false: results share the plan's memory
  // true: Run does nothing and returns nullopt, unless the feed has an array for each input that
  // IsPlain. The caller then tries another plan.
  bool plain = false;
  int64_t step = 0;  // number of the run's first step in the training, from 0; Run sets it
};

// A plan of a program in one scope, with its feed and fetch list. Thread-safe. Only one plan of a
// scope runs at a time. Make and Run release the GIL while they compute or wait.
class RunnablePlan : public std::enable_shared_from_this<RunnablePlan> {
 public:
  // Makes the plan. Throws StatusError with one of these codes. NOT_FOUND: a fed or fetched
  // variable does not exist. INVALID_ARGUMENT: the feed does not fit the program.
  // FAILED_PRECONDITION: a parameter or state has no value in the scope, or this process was forked
  // after a run.
  static std::shared_ptr<RunnablePlan> Make(const ProgramHandle& program,
                                            std::shared_ptr<DeviceScope> scope,
                                            const PlanRequest& request);

  // Feeds the arrays, runs the plan, and returns the values of the fetch list. The values are
  // arrays, or TensorView objects if request.copy is false. Throws StatusError, or an exception of
  // request.before. INVALID_ARGUMENT: an array and its variable differ in shape or type. A
  // KeyboardInterrupt ends a run of several iterations before the next iteration. With a schedule,
  // Run adds the iterations to the steps of the scope, and subtracts them if the run fails.
  std::optional<pybind11::list> Run(const pybind11::dict& feed, RunRequest request);

  // Connects to the other ranks or pservers of the training (SteppedTraining::Join). Returns the
  // number of the first step. Throws StatusError. A KeyboardInterrupt ends the wait. REQUIRES: the
  // plan has a training.
  int64_t Join(int64_t step);

  int64_t batch() const { return batch_; }
  const exec::Plan& plan() const { return *plan_; }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  // The fed arrays and their copies to the plan. The arrays must exist until the copies are done.
  struct Feed {
    absl::InlinedVector<pybind11::object, 4> arrays;
    absl::InlinedVector<Copy, 4> copies;
  };

  RunnablePlan() = default;
  std::optional<Feed> ReadPlain(const pybind11::dict& feed) const;
  Feed Read(const pybind11::dict& feed, bool all) const;
  void RunLocked(const Feed& feed, const RunRequest& request, std::span<const Copy> results);
  Status Put(const Feed& feed);
  Status SetStep(const RunRequest& request, int iteration);
  Status BeforeIteration(const RunRequest& request, int iteration);
  Status Execute(const RunRequest& request);

  std::shared_ptr<DeviceScope> scope_;
  std::shared_ptr<trainer::SteppedTraining> training_;  // nullptr: there are no other ranks
  std::unique_ptr<exec::Plan> plan_;
  std::unique_ptr<exec::Executor> executor_;
  std::map<std::string, Tensor, std::less<>> inputs_;
  std::vector<Tensor> outputs_;  // fetched tensors, in the order of the fetch list
  const Tensor* learning_rate_ = nullptr;
  const Tensor* dropout_ = nullptr;
  int64_t batch_ = 1;
  bool running_ = false;       // Run is in progress; guarded by the Lock of scope_
  std::exception_ptr raised_;  // Python exception of request.before in this run
};

}  // namespace tandem::python
