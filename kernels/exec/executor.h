// Runs a plan. With one thread, steps run in program order on the calling thread. A step then
// allocates nothing, looks nothing up and compares no strings, so that a step of a small model
// takes microseconds. With several threads (PlanOptions::num_threads), steps run in data flow
// order: kernels/exec/dataflow.h. On a device, segments of steps are one launch each
// (PlanOptions::graphs): kernels/exec/graph_pieces.h. All ways give the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/tensor/launch_graph.h"
#include "kernels/exec/graph_pieces.h"
#include "kernels/exec/plan.h"
#include "kernels/ops/cpu/loop_threads.h"

namespace tandem {

class Dataflow;

// Observes the plan steps as they run, one at a time, in the order in which they end. With one
// thread, the calls come in program order on the executor's thread.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // `step` is about to run on this thread. Not called if several threads run the steps. An error
  // ends the run before the step.
  virtual Status BeforeStep(const PlanStep& /*step*/, int64_t /*run*/) { return OkStatus(); }
  // `step` ran from `begin` to `end` in run `run` of the executor. A communication step was started
  // or waited for. Not called for steps that a condition skips. An error ends the run as if the
  // step had failed.
  virtual Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) = 0;
  // All iterations of a run were started; a device may still be working. An error becomes the
  // result of the run.
  virtual Status AfterRun() { return OkStatus(); }
};

// Returns `status` as an error of operator `op` of `program`, with the operator's name and source.
Status AtOp(const Program& program, int op, const Status& status);

// Runs one plan. Not thread-safe.
class Executor {
 public:
  explicit Executor(Plan& plan);  // Not owned; must outlive this.
  ~Executor();

  // Called before each iteration of a run with its number, from 0. It can fill the data of that
  // iteration and read the results of the last one.
  using BeforeIteration = std::function<Status(int iteration)>;

  // Runs the whole plan `iterations` times. Fetched variables have the values of the last
  // iteration. An error names operator, source and shapes. After an error, parameters may be partly
  // updated.
  Status Run(int iterations = 1, const BeforeIteration& before = nullptr);
  int64_t steps_run() const { return steps_run_; }  // iterations of all runs
  int64_t drops() const { return drops_; }          // runs after which temporaries were released
  CommTimes comm_times() const;                     // since construction
  // Number of plan steps and graphs launched on a device.
  int64_t launches() const { return launches_; }
  // Returns messages about the plan's graphs since the last call, one per line; "": none.
  std::string TakeNews() { return std::exchange(news_, ""); }

  // Sets an observer from the next run on; nullptr: none, at no cost. Graphs are not used while an
  // observer is set, because it sees every step. Not owned.
  void SetObserver(ExecObserver* observer) { observer_ = observer; }

 private:
  template <bool kObserved>
  Status RunOnce();
  Status RunDataflow();
  // A segment of a plan that runs as a graph.
  struct Piece {
    std::span<PlanStep> steps;
    bool to_record;  // record at the second run; in the first one kernels choose algorithms
    std::unique_ptr<LaunchGraph> graph;
    bool was_run = false;
  };
  Status RunPieces();
  Status RunPiece(Piece& piece);
  void Record(Piece& piece);
  void ReportCapturedGraphs();
  void AfterRun();
  Status RunOn(PlanStep& step, int thread);
  Status RunStep(PlanStep& step);
  Status Wait(int comm);
  void LeaveOut(int comm);
  void CountComm();
  StatusOr<bool> LeftOut(const PlanStep& step);
  void EndComm();
  Status Fail(const PlanStep& step, const Status& status);
  Status At(const PlanStep& step, const Status& status) const {
    return AtOp(plan_.program(), step.op, status);
  }

  Plan& plan_;
  std::unique_ptr<Dataflow> dataflow_;  // nullptr: one thread
  Mutex observing_;
  ExecObserver* observer_ = nullptr;
  // The condition that was last copied from the device, valid for the step at `behind_known_`.
  const float* known_condition_ = nullptr;
  const PlanStep* behind_known_ = nullptr;
  bool left_out_ = false;
  int in_flight_ = -1;                  // communications 0..in_flight_ of this iteration were
                                        // started
  std::vector<Time> comm_began_;        // in this iteration, by communication
  std::atomic<int64_t> waited_ns_ = 0;  // waiting for communication, sum over all threads
  double on_way_ = 0;
  LoopThreads loops_;          // used when steps run in program order
  std::vector<Piece> pieces_;  // empty: no graphs
  bool graphs_told_ = false;
  int64_t launches_ = 0;
  std::string news_;
  int64_t steps_run_ = 0, runs_ = 0, drops_ = 0;
};

}  // namespace tandem
