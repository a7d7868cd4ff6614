// Runs the steps of a graph on several threads. A step is ready when all steps for which it waits
// have run. Threads run ready steps in program order.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "kernels/exec/step_graph.h"

namespace tandem::exec {

class Dataflow {
 public:
  // Runs one step on a thread. Calls from different threads overlap in time. The effects of a step
  // are visible to the steps that wait for it.
  using RunStep = std::function<Status(int step, int thread)>;

  // `threads`: number of threads that run steps, at least 1, including the caller of Run. `graph`
  // must outlive this object.
  Dataflow(const StepGraph& graph, int threads);
  ~Dataflow();
  Dataflow(const Dataflow&) = delete;
  Dataflow& operator=(const Dataflow&) = delete;

  struct Failure {
    int step = -1;
    Status status;
  };
  // Runs every step once and blocks until all steps have ended. After an error, no further step
  // starts. If several steps fail, returns the failure of the first of them in program order. Step
  // -1: no step failed. Only one thread may call Run at a time.
  Failure Run(const RunStep& run);

 private:
  void Serve(int thread);
  void RunReady(int thread) TD_REQUIRES(mu_);
  void AfterStep(int step, const Status& status) TD_REQUIRES(mu_);
  void AddReady(int step) TD_REQUIRES(mu_);
  void AwaitReady() TD_REQUIRES(mu_);
  bool done() const TD_REQUIRES(mu_) { return running_ == 0 && ready_.empty(); }

  const StepGraph& graph_;
  std::vector<std::thread> threads_;

  Mutex mu_;
  CondVar changed_;
  const RunStep* run_ TD_GUARDED_BY(mu_) = nullptr;
  // By step: the number of unfinished steps for which the step waits in this run.
  std::vector<int> waits_for_ TD_GUARDED_BY(mu_);
  // A heap of the steps that are ready. The first step in program order is on top.
  std::vector<int> ready_ TD_GUARDED_BY(mu_);
  int running_ TD_GUARDED_BY(mu_) = 0;
  int idle_ TD_GUARDED_BY(mu_) = 0;  // number of threads that wait for changed_
  bool stop_ TD_GUARDED_BY(mu_) = false;
  Failure failure_ TD_GUARDED_BY(mu_);
  // Counter that spinning threads read. It is incremented when ready_ changes and when a run ends.
  std::atomic<int> news_{0};
};

}  // namespace tandem::exec
