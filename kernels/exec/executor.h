// Runs a plan. With one thread, the plan steps run in program order on the calling thread, without
// allocations, look-ups or comparisons of strings. Therefore a training step of a small model takes
// microseconds. With several threads (PlanOptions::num_threads), plan steps run in data flow order:
// kernels/exec/dataflow.h. On a device, each segment of plan steps is one launch
// (PlanOptions::graphs): kernels/exec/graph_pieces.h. The results of these three ways have the same
// bits.
#pragma once

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
#include "kernels/exec/plan.h"
#include "kernels/exec/running_comms.h"
#include "kernels/ops/cpu/loop_threads.h"

namespace tandem::exec {

class Dataflow;

// Observes the plan steps as they run. The executor calls the observer for one step at a time, in
// the order in which the steps end. With one thread, the calls come in program order on the
// executor's thread.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // Called before `step` runs, on the same thread. Not called if several threads run the steps. An
  // error ends the run, and `step` does not run.
  virtual Status BeforeStep(const PlanStep& /*step*/, int64_t /*run*/) { return OkStatus(); }
  // Called after `step` ran from `begin` to `end` in run `run` of the executor. For a
  // communication, `step` is either its start or the wait for its end. Not called for steps that a
  // condition skips. An error ends the run as if the step had failed.
  virtual Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) = 0;
  // Called after OnStep of `wait`: the communication of step `wait` ended at time `ended`.
  virtual void OnCommEnd(const PlanStep& /*wait*/, int64_t /*run*/, Time /*ended*/) {}
  // Called when the host has submitted all iterations of a run. A device may still be working. An
  // error becomes the result of the run.
  virtual Status AfterRun() { return OkStatus(); }
};

// Returns `status` as an error of operator `op` of `program`: adds the operator's name and source
// position to the message.
Status AtOp(const graph::Program& program, int op, const Status& status);

// Runs one plan. Holds the data that a run changes, except the memory of the plan. Not thread-safe.
class Executor {
 public:
  explicit Executor(const Plan& plan);  // `plan` is not owned and must outlive the executor.
  ~Executor();

  // Called before each iteration of a run with the number of the iteration, from 0. The callback
  // can fill the data of this iteration and read the results of the previous one.
  using BeforeIteration = std::function<Status(int iteration)>;

  // Runs the whole plan `iterations` times. Fetched variables afterwards have the values of the
  // last iteration. An error names the operator, its source position and the shapes. After an
  // error, parameters may be partly updated.
  Status Run(int iterations = 1, const BeforeIteration& before = nullptr);
  int64_t steps_run() const { return steps_run_; }  // iterations over all runs
  int64_t drops() const { return drops_; }  // number of runs after which temporaries were released
  // Returns the times of all communications since construction.
  CommTimes comm_times() const { return comms_.times(plan_.num_threads()); }
  // Returns how many plan steps and graphs were launched on a device, over all runs.
  int64_t launches() const { return launches_; }
  // Returns the messages about recorded graphs since the last call of TakeNews, one per line. "":
  // no messages.
  std::string TakeNews() { return std::exchange(news_, ""); }

  // Sets the observer for the next iterations. nullptr: no observer, at no cost. An observer must
  // see every step, so the executor uses no graphs while an observer is set. The observer is not
  // owned.
  void SetObserver(ExecObserver* observer) { observer_ = observer; }

 private:
  // Consecutive plan steps that run or are skipped together. A piece is one step, the kernels under
  // one condition, or (on a device) the kernels of a graph.
  struct Piece {
    std::span<const PlanStep> steps;
    const float* run_if;  // the steps of the piece run if this value is not 0; nullptr: always
    // True until the piece is recorded as a graph. The executor records the piece in the second
    // run, because kernels choose their algorithms in the first run.
    bool to_record = false;
    std::unique_ptr<LaunchGraph> graph = nullptr;
    bool was_run = false;
  };
  static std::vector<Piece> PiecesOf(const Plan& plan);

  Status RunIteration();
  Status RunInOrder();
  Status RunPiece(Piece& piece, int thread);
  Status ObservePiece(const Piece& piece, int thread);
  Status RunStep(const PlanStep& step, int thread);
  StatusOr<bool> Skips(const float* run_if);
  void Record(Piece& piece);
  void ReportCapturedGraphs();
  void AfterRun();
  Status At(const PlanStep& step, const Status& status) const {
    return AtOp(plan_.program(), step.op, status);
  }

  const Plan& plan_;
  std::vector<Piece> pieces_;           // together they contain all steps, in the plan's order
  std::unique_ptr<Dataflow> dataflow_;  // nullptr: one thread runs the steps in program order
  RunningComms comms_;
  ops::LoopThreads loops_;
  // threads of an OpenMP loop (LoopThreads); 1 if plan steps run concurrently
  const int loop_threads_;
  Mutex observing_;
  ExecObserver* observer_ = nullptr;
  // On a device: the condition that the host copied last, and whether its pieces are skipped.
  const float* last_condition_ = nullptr;
  bool last_skips_ = false;
  bool graphs_reported_ = false;
  int64_t launches_ = 0;
  std::string news_;
  int64_t steps_run_ = 0, runs_ = 0, drops_ = 0;
};

}  // namespace tandem::exec
