#include "kernels/exec/executor.h"

#include "common/base/check.h"
#include "common/base/require.h"
#include "kernels/exec/dataflow.h"
#include "kernels/exec/graph_pieces.h"

namespace tandem::exec {

// A piece is a group of plan steps that run or are skipped together. On the CPU, each step of a
// data flow is one piece. Each step with a condition is also one piece, because an earlier step may
// change the condition. On a device, all kernels under one condition are one piece, because the
// host copies the condition once for all of them.
std::vector<Executor::Piece> Executor::PiecesOf(const Plan& plan) {
  const std::span<const PlanStep> steps = plan.steps();
  std::vector<Piece> pieces;
  size_t covered = 0;
  for (const GraphSegment& segment : SplitIntoGraphSegments(steps)) {
    TD_REQUIRE(segment.begin == covered && segment.begin < segment.end);
    covered = segment.end;
    const float* const run_if = steps[segment.begin].run_if;
    const bool whole = plan.num_threads() == 1 && (run_if == nullptr || plan.device() != nullptr);
    const size_t size = whole ? segment.end - segment.begin : 1;
    for (size_t i = segment.begin; i < segment.end; i += size) {
      pieces.push_back({.steps = steps.subspan(i, size),
                        .run_if = run_if,
                        .to_record = plan.recorder() != nullptr && segment.worth_graph});
    }
  }
  CHECK_EQ(covered, steps.size());
  return pieces;
}

Executor::Executor(const Plan& plan)
    : plan_(plan),
      pieces_(PiecesOf(plan)),
      comms_(plan.comm_handler(), plan.comm_nodes()),
      loop_threads_(plan.num_threads() > 1 ? 1 : plan.kernel_threads()) {
  if (plan.num_threads() == 1) return;
  TD_REQUIRE(pieces_.size() == plan.steps().size());  // each piece is one step of the graph
  dataflow_ = std::make_unique<Dataflow>(plan.graph(), plan.num_threads());
}

Executor::~Executor() = default;

Status Executor::Run(int iterations, const BeforeIteration& before) {
  for (int i = 0; i < iterations; ++i) {
    if (before) TD_RETURN_IF_ERROR(before(i));
    TD_RETURN_IF_ERROR(RunIteration());
    ++steps_run_;
  }
  if (observer_ != nullptr) TD_RETURN_IF_ERROR(observer_->AfterRun());
  // A device reports errors that it finds in the data only when the host synchronises with it.
  if (plan_.device() != nullptr) TD_RETURN_IF_ERROR(plan_.device()->Synchronize());
  AfterRun();
  return OkStatus();
}

void Executor::AfterRun() {
  ++runs_;
  const DropOptions& drop = plan_.drop();
  const bool due = drop.every_runs > 0 && runs_ % drop.every_runs == 0;
  if (!due && !plan_.drops_each_run()) return;
  plan_.DropTemporaries();
  ++drops_;
}

Status Executor::RunIteration() {
  Status status;
  if (dataflow_ == nullptr) {
    status = RunInOrder();
  } else {
    const auto run = [this](int step, int thread) {
      return RunPiece(pieces_[static_cast<size_t>(step)], thread);
    };
    status = dataflow_->Run(run).status;
  }
  if (!status.ok()) {
    comms_.Abandon();
    return status;
  }
  comms_.EndIteration();
  if (plan_.recorder() != nullptr && !graphs_reported_) ReportCapturedGraphs();
  return OkStatus();
}

Status Executor::RunInOrder() {
  last_condition_ = nullptr;
  for (Piece& piece : pieces_) {
    if (piece.run_if == nullptr) last_condition_ = nullptr;
    TD_RETURN_IF_ERROR(RunPiece(piece, 0));
  }
  return OkStatus();
}

Status Executor::RunPiece(Piece& piece, int thread) {
  const PlanStep& first = piece.steps.front();
  if (piece.run_if != nullptr) {
    TD_ASSIGN_OR_RETURN(const bool skips, Skips(piece.run_if));
    if (skips) {
      if (first.comm_start >= 0) comms_.Skip(first.comm_start);
      return OkStatus();
    }
  }
  if (observer_ != nullptr) return ObservePiece(piece, thread);
  if (piece.to_record && piece.was_run) Record(piece);
  piece.was_run = true;
  if (piece.graph != nullptr) {
    ++launches_;
    return At(first, Annotate(piece.graph->Launch(),
                              "cuda_graph: the graph that begins at this operator"));
  }
  const int loop_threads = loop_threads_;
  for (const PlanStep& step : piece.steps) {
    loops_.KeepApart(loop_threads);
    if (Status status = RunStep(step, thread); !status.ok()) [[unlikely]]
      return At(step, status);
  }
  if (plan_.device() != nullptr) launches_ += static_cast<int64_t>(piece.steps.size());
  return OkStatus();
}

// Runs the steps of a piece one by one, so that the observer sees each step.
Status Executor::ObservePiece(const Piece& piece, int thread) {
  for (const PlanStep& step : piece.steps) {
    loops_.KeepApart(loop_threads_);
    if (dataflow_ == nullptr) TD_RETURN_IF_ERROR(observer_->BeforeStep(step, steps_run_));
    const Time begin = SteadyNow();
    if (Status status = RunStep(step, thread); !status.ok()) return At(step, status);
    const Time end = SteadyNow();
    MutexLock lock(observing_);
    const Status status = observer_->OnStep(step, steps_run_, begin, end);
    if (!status.ok()) return At(step, status);
    if (step.comm_wait >= 0) {
      observer_->OnCommEnd(step, steps_run_, comms_.ended(step.comm_wait));
    }
  }
  if (plan_.device() != nullptr) launches_ += static_cast<int64_t>(piece.steps.size());
  return OkStatus();
}

inline Status Executor::RunStep(const PlanStep& step, int thread) {
  if (step.run != nullptr) [[likely]] {
    if (thread == 0) [[likely]]
      return step.run(step.args);
    ops::KernelArgs args = step.args;
    args.scratch = plan_.scratch(thread);
    return step.run(args);
  }
  if (step.comm_wait >= 0) return comms_.Wait(step.comm_wait);
  comms_.Start(step.comm_start, steps_run_);
  return OkStatus();
}

// Returns true if the condition is 0, so that the piece is skipped. On a device, the host waits for
// the device and copies the condition. Consecutive pieces with the same condition share one copy.
StatusOr<bool> Executor::Skips(const float* run_if) {
  if (plan_.device() == nullptr) return *run_if == 0.0f;
  if (run_if != last_condition_) {
    float value = 0;
    TD_RETURN_IF_ERROR(plan_.device()->CopyToHost(&value, run_if, sizeof(value)));
    last_condition_ = run_if;
    last_skips_ = value == 0.0f;
  }
  return last_skips_;
}

// Records the kernels of a piece as one graph. If recording fails, each kernel of the piece is
// launched separately in all runs.
void Executor::Record(Piece& piece) {
  TD_REQUIRE(plan_.recorder() != nullptr && piece.graph == nullptr);
  piece.to_record = false;
  auto graph = plan_.recorder()->Record(*plan_.device(), [this, &piece]() -> Status {
    for (const PlanStep& step : piece.steps) {
      if (Status status = RunStep(step, 0); !status.ok()) return At(step, status);
    }
    return OkStatus();
  });
  if (graph.ok()) {
    piece.graph = *std::move(graph);
    return;
  }
  news_ +=
      absl::StrFormat("cuda_graph: the %d kernels from op #%d on are launched separately: %s\n",
                      piece.steps.size(), piece.steps.front().op, ToString(graph.status()));
}

// Reports the number of graphs once every piece that should be recorded has been recorded.
void Executor::ReportCapturedGraphs() {
  int64_t graphs = 0, launches = 0;
  for (const Piece& piece : pieces_) {
    if (piece.to_record) return;
    if (piece.graph == nullptr) continue;
    ++graphs;
    launches += piece.graph->launches();
  }
  graphs_reported_ = true;
  if (graphs > 0)
    news_ += absl::StrFormat("cuda_graph: %d launches were reduced to %d\n", launches, graphs);
}

Status AtOp(const graph::Program& program, int op, const Status& status) {
  const ops::Op& at = program.ops[static_cast<size_t>(op)];
  std::string where = absl::StrFormat("op #%d %s", op, at.type);
  if (!at.source.empty()) where += " (" + at.source + ")";
  return Annotate(status, where);
}

}  // namespace tandem::exec
