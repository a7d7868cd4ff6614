// Runs the steps of a graph on several threads, each as soon as those that it waits for have run.
// Of several that could run the first in program order is taken.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "kernels/exec/step_graph.h"

namespace tandem {

class Dataflow {
 public:
  // Calls of different threads overlap; what a step did is seen by those that wait for it.
  using RunStep = std::function<Status(int step, int thread)>;

  // `threads` >= 1, of which one is the caller of Run. `graph` must outlive this.
  Dataflow(const StepGraph& graph, int threads);
  ~Dataflow();
  Dataflow(const Dataflow&) = delete;
  Dataflow& operator=(const Dataflow&) = delete;

  struct Failure {
    int step = -1;
    Status status;
  };
  // Runs every step once. After an error no further step is begun; of several errors the one of the
  // first step in program order is given. Blocks. One caller at a time.
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
  std::vector<int> waits_for_ TD_GUARDED_BY(mu_);  // of the present run
  std::vector<int> ready_ TD_GUARDED_BY(mu_);      // a heap, the first in program order on top
  int running_ TD_GUARDED_BY(mu_) = 0;
  int idle_ TD_GUARDED_BY(mu_) = 0;  // threads that wait to be notified
  bool stop_ TD_GUARDED_BY(mu_) = false;
  Failure failure_ TD_GUARDED_BY(mu_);
  std::atomic<int> news_{0};  // changes with ready_ and the end of a run: what spinning threads see
};

}  // namespace tandem
