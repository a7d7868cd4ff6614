// A plan of a program, which Python feeds and runs.
#pragma once

#include <pybind11/numpy.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/exec/plan.h"
#include "trainer/job/lr_schedule.h"
#include "trainer/python/device_scope.h"
#include "trainer/python/program_handle.h"

namespace tandem::python {

using FeedShapes = std::map<std::string, std::vector<int64_t>>;

struct PlanRequest {
  FeedShapes feed;                 // shapes of the fed variables
  std::vector<std::string> fetch;  // any variables
  int threads = 1;                 // PlanOptions::threads
  int num_threads = 1;             // PlanOptions::num_threads
};

struct RunRequest {
  std::shared_ptr<trainer::LrSchedule> schedule;  // sets the learning rate; nullptr: unchanged
  uint64_t seed = 1;                              // dropout's seed
  int64_t step = 0;                               // number of the first iteration in the training
  int iterations = 1;
  pybind11::object before;  // called with the number of each iteration; None: nothing
  bool copy = true;         // false: the results share the memory of the plan
};

// Thread-safe: runs of one scope exclude each other. Make and Run release the GIL while they
// compute or wait.
class RunnablePlan : public std::enable_shared_from_this<RunnablePlan> {
 public:
  // Throws StatusError. INVALID_ARGUMENT, NOT_FOUND: the feed does not fit the program, or a
  // fetched variable does not exist. FAILED_PRECONDITION: a parameter has no value in the scope.
  static std::shared_ptr<RunnablePlan> Make(const ProgramHandle& program,
                                            std::shared_ptr<DeviceScope> scope,
                                            const PlanRequest& request);

  // Feeds the arrays, runs, and returns the fetched values: arrays, or TensorView without `copy`.
  // Throws StatusError, or the exception of `before`. INVALID_ARGUMENT: an array has another shape
  // or type. KeyboardInterrupt ends the run after an iteration.
  pybind11::list Run(const pybind11::dict& feed, const RunRequest& request);

  int64_t batch() const { return batch_; }
  const exec::Plan& plan() const { return *plan_; }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  // Arrays and where they go. The arrays must live until the copies are done.
  struct Feed {
    std::vector<pybind11::array> arrays;
    std::vector<Copy> copies;
  };

  RunnablePlan() = default;
  Feed Read(const pybind11::dict& feed, bool all) const;
  Status Put(const Feed& feed);
  Status SetStep(const RunRequest& request, int iteration);
  Status BeforeIteration(const RunRequest& request, int iteration);
  Status Execute(const RunRequest& request);

  std::shared_ptr<DeviceScope> scope_;
  std::unique_ptr<exec::Plan> plan_;
  std::unique_ptr<exec::Executor> executor_;
  std::map<std::string, Tensor> inputs_;
  std::vector<Tensor> outputs_;  // in the order of the fetch list
  const Tensor* learning_rate_ = nullptr;
  const Tensor* dropout_ = nullptr;
  int64_t batch_ = 1;
  bool running_ = false;       // the lock of the scope guards it
  std::exception_ptr raised_;  // by `before`, in this run
};

}  // namespace tandem::python
