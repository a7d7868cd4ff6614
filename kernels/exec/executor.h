// Runs a plan. With one thread in program order, on the calling thread: a step allocates nothing,
// looks nothing up and compares no strings, so a small model's step costs microseconds. With
// several (PlanOptions::num_threads) as the data flow: kernels/exec/dataflow.h. On a device in
// pieces that are one launch each (PlanOptions::graphs): kernels/exec/graph_pieces.h. All give the
// same bits.
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

// Sees the steps of a plan as they are run, one at a time, in the order in which they end; in
// program order on the executor's thread when that is the only one.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // `step` is about to run, on this thread. Not called where several threads take the steps. An
  // error ends the run before the step.
  virtual Status BeforeStep(const PlanStep& /*step*/, int64_t /*run*/) { return OkStatus(); }
  // `step` has run from `begin` to `end` (a communication: has been started, or waited for), in run
  // `run` of the executor. Steps that a condition leaves out are not seen. An error ends the run as
  // if the step had failed.
  virtual Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) = 0;
  // All iterations of a run have been started; a device may still be at work. An error is the
  // run's.
  virtual Status AfterRun() { return OkStatus(); }
};

// An error of operator `op` of `program`: names it and its source.
Status AtOp(const Program& program, int op, const Status& status);

// Not thread-safe.
class Executor {
 public:
  explicit Executor(Plan& plan);  // Not owned; must outlive this.
  ~Executor();

  // Called before each iteration of a run with its number, from 0: brings the data of that one, and
  // sees what the last one left.
  using BeforeIteration = std::function<Status(int iteration)>;

  // Runs the whole plan `iterations` times; fetched variables are those of the last. An error names
  // operator, source and shapes; parameters may then have been updated in part.
  Status Run(int iterations = 1, const BeforeIteration& before = nullptr);
  int64_t steps_run() const { return steps_run_; }  // iterations of all runs
  int64_t drops() const { return drops_; }          // runs behind which temporaries were dropped
  CommTimes comm_times() const;                     // since it was made
  // Steps of the plan and graphs that it started one by one on a device.
  int64_t launches() const { return launches_; }
  // What became of the plan's graphs since the last call, a line each; empty: nothing new.
  std::string TakeNews() { return std::exchange(news_, ""); }

  // From the next run on; nullptr: nobody looks on, which costs nothing. Who looks on sees every
  // step, so graphs rest meanwhile. Not owned.
  void SetObserver(ExecObserver* observer) { observer_ = observer; }

 private:
  template <bool kObserved>
  Status RunOnce();
  Status RunDataflow();
  // A piece of a plan that is run in graphs.
  struct Piece {
    std::span<PlanStep> steps;
    bool to_record;  // at its second run: in the first one kernels choose their algorithms
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
  // The condition in a device's memory that was read last, for the step at `behind_known_`.
  const float* known_condition_ = nullptr;
  const PlanStep* behind_known_ = nullptr;
  bool left_out_ = false;
  int in_flight_ = -1;                  // communications 0..in_flight_ of this step were started
  std::vector<Time> comm_began_;        // in this step, by communication
  std::atomic<int64_t> waited_ns_ = 0;  // for communication, of all threads
  double on_way_ = 0;
  LoopThreads loops_;          // in program order
  std::vector<Piece> pieces_;  // empty: no graphs
  bool graphs_told_ = false;
  int64_t launches_ = 0;
  std::string news_;
  int64_t steps_run_ = 0, runs_ = 0, drops_ = 0;
};

}  // namespace tandem
