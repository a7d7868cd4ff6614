// Runs a plan. With one thread, steps run in program order on the calling thread. A step then
// allocates nothing, looks nothing up and compares no strings, so that a step of a small model
// takes microseconds. With several threads (PlanOptions::num_threads), steps run in data flow
// order: kernels/exec/dataflow.h. On a device, segments of steps are one launch each
// (PlanOptions::graphs): kernels/exec/graph_pieces.h. All ways give the same bits.
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
  // The communication for which step `wait` waited ended at `ended`. Called after OnStep of `wait`.
  virtual void OnCommEnd(const PlanStep& /*wait*/, int64_t /*run*/, Time /*ended*/) {}
  // All iterations of a run were started; a device may still be working. An error becomes the
  // result of the run.
  virtual Status AfterRun() { return OkStatus(); }
};

// Returns `status` as an error of operator `op` of `program`, with the operator's name and source.
Status AtOp(const Program& program, int op, const Status& status);

// Runs one plan, piece by piece. Holds all that a run changes but the memory. Not thread-safe.
class Executor {
 public:
  explicit Executor(const Plan& plan);  // Not owned; must outlive this.
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
  CommTimes comm_times() const { return comms_.times(plan_.num_threads()); }  // since construction
  // Number of plan steps and graphs launched on a device.
  int64_t launches() const { return launches_; }
  // Returns messages about the plan's graphs since the last call, one per line; "": none.
  std::string TakeNews() { return std::exchange(news_, ""); }

  // Sets an observer from the next run on; nullptr: none, at no cost. Graphs are not used while an
  // observer is set, because it sees every step. Not owned.
  void SetObserver(ExecObserver* observer) { observer_ = observer; }

 private:
  // Consecutive plan steps that run or are skipped together: one step, kernels under one condition,
  // or on a device the kernels of a graph.
  struct Piece {
    std::span<const PlanStep> steps;
    const float* run_if;     // condition of all steps; nullptr: none
    bool to_record = false;  // record at the second run; in the first, kernels choose
                             // algorithms
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
  std::vector<Piece> pieces_;           // they cover the steps of the plan
  std::unique_ptr<Dataflow> dataflow_;  // nullptr: one thread, in program order
  RunningComms comms_;
  LoopThreads loops_;
  const int loop_threads_;  // threads of a loop to keep apart; 1: none, steps run concurrently
  Mutex observing_;
  ExecObserver* observer_ = nullptr;
  // On a device: the condition that the previous piece copied to the host, and its meaning.
  const float* last_condition_ = nullptr;
  bool last_skips_ = false;
  bool graphs_reported_ = false;
  int64_t launches_ = 0;
  std::string news_;
  int64_t steps_run_ = 0, runs_ = 0, drops_ = 0;
};

}  // namespace tandem
