#include "kernels/exec/executor.h"

#include <algorithm>

#include "kernels/exec/dataflow.h"

namespace tandem {

Executor::Executor(Plan& plan) : plan_(plan), comm_began_(plan.done_.size()) {
  if (plan.num_threads() > 1) {
    dataflow_ = std::make_unique<Dataflow>(plan.graph(), plan.num_threads());
  }
  if (plan.recorder() == nullptr) return;
  for (const GraphSegment& piece : SplitIntoGraphSegments(plan.steps())) {
    pieces_.push_back(
        {.steps = std::span(plan.steps_).subspan(piece.begin, piece.end - piece.begin),
         .to_record = piece.worth_graph,
         .graph = nullptr});
  }
}

Executor::~Executor() = default;

Status Executor::Run(int iterations, const BeforeIteration& before) {
  for (int i = 0; i < iterations; ++i) {
    if (before) TD_RETURN_IF_ERROR(before(i));
    if (dataflow_ != nullptr) {
      TD_RETURN_IF_ERROR(RunDataflow());
    } else if (!pieces_.empty() && observer_ == nullptr) {
      TD_RETURN_IF_ERROR(RunPieces());
    } else {
      TD_RETURN_IF_ERROR(observer_ == nullptr ? RunOnce<false>() : RunOnce<true>());
    }
    CountComm();
    ++steps_run_;
  }
  if (observer_ != nullptr) TD_RETURN_IF_ERROR(observer_->AfterRun());
  // Errors that a device finds in the data are known only after synchronisation.
  if (plan_.device() != nullptr) TD_RETURN_IF_ERROR(plan_.device()->Synchronize());
  AfterRun();
  return OkStatus();
}

void Executor::AfterRun() {
  ++runs_;
  const DropOptions& drop = plan_.drop_;
  const bool due = drop.every_runs > 0 && runs_ % drop.every_runs == 0;
  if (!due && !plan_.drops_each_run()) return;
  plan_.DropTemporaries();
  ++drops_;
}

template <bool kObserved>
Status Executor::RunOnce() {
  int64_t launches = 0;
  for (PlanStep& step : plan_.steps_) {
    if (step.run_if != nullptr) [[unlikely]] {
      TD_ASSIGN_OR_RETURN(const bool left_out, LeftOut(step));
      if (left_out) {
        if (step.comm_start >= 0) LeaveOut(step.comm_start);
        continue;
      }
    }
    ++launches;
    loops_.KeepApart(plan_.kernel_threads());
    if constexpr (kObserved) {
      if (Status status = observer_->BeforeStep(step, steps_run_); !status.ok()) {
        EndComm();
        return status;
      }
    }
    const Time begin = kObserved ? SteadyNow() : Time();
    if (Status status = RunStep(step); !status.ok()) [[unlikely]] {
      return Fail(step, status);
    }
    if constexpr (kObserved) {
      const Status status = observer_->OnStep(step, steps_run_, begin, SteadyNow());
      if (!status.ok()) return Fail(step, status);
    }
  }
  if (plan_.device() != nullptr) launches_ += launches;
  in_flight_ = -1;
  return OkStatus();
}

Status Executor::RunPieces() {
  for (Piece& piece : pieces_) {
    PlanStep& first = piece.steps.front();
    if (first.run_if != nullptr) {
      TD_ASSIGN_OR_RETURN(const bool left_out, LeftOut(first));
      behind_known_ = piece.steps.data() + piece.steps.size();
      if (left_out) {
        if (first.comm_start >= 0) LeaveOut(first.comm_start);
        continue;
      }
    }
    if (piece.to_record && piece.was_run) Record(piece);
    TD_RETURN_IF_ERROR(RunPiece(piece));
    piece.was_run = true;
  }
  in_flight_ = -1;
  if (!graphs_told_) ReportCapturedGraphs();
  return OkStatus();
}

Status Executor::RunPiece(Piece& piece) {
  if (piece.graph != nullptr) {
    ++launches_;
    const Status status = piece.graph->Launch();
    return status.ok()
               ? status
               : Fail(piece.steps.front(),
                      Annotate(status, "cuda_graph: the graph that begins at this operator"));
  }
  for (PlanStep& step : piece.steps) {
    ++launches_;
    if (const Status status = RunStep(step); !status.ok()) return Fail(step, status);
  }
  return OkStatus();
}

// Records a segment. A segment that cannot be recorded keeps its single launches.
void Executor::Record(Piece& piece) {
  piece.to_record = false;
  auto graph = plan_.recorder()->Record(*plan_.device(), [this, &piece]() -> Status {
    for (PlanStep& step : piece.steps) {
      if (const Status status = RunStep(step); !status.ok()) return At(step, status);
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

// Reports when all segments that can be graphs are graphs.
void Executor::ReportCapturedGraphs() {
  int64_t graphs = 0, launches = 0;
  for (const Piece& piece : pieces_) {
    if (piece.to_record) return;
    if (piece.graph == nullptr) continue;
    ++graphs;
    launches += piece.graph->launches();
  }
  graphs_told_ = true;
  if (graphs > 0)
    news_ += absl::StrFormat("cuda_graph: %d launches were reduced to %d\n", launches, graphs);
}

inline Status Executor::RunStep(PlanStep& step) {
  if (step.run != nullptr) [[likely]]
    return step.run(step.args);
  if (step.comm_wait >= 0) return Wait(step.comm_wait);
  CommDone* done = plan_.done_[step.comm_start].get();
  done->Reset();
  in_flight_ = step.comm_start;
  comm_began_[step.comm_start] = SteadyNow();
  plan_.comm_->Start(plan_.comm_index_[step.comm_start], steps_run_, done);
  return OkStatus();
}

Status Executor::Wait(int comm) {
  const Time begin = SteadyNow();
  const Status status = plan_.done_[comm]->Wait(begin + plan_.comm_->timeout());
  waited_ns_.fetch_add((SteadyNow() - begin).count(), std::memory_order_relaxed);
  return status;
}

// Called after a step, when all communications have ended. They were started in this order.
void Executor::CountComm() {
  Time covered = Time::min();
  for (size_t c = 0; c < comm_began_.size(); ++c) {
    const Time end = plan_.done_[c]->ended(), from = std::max(comm_began_[c], covered);
    if (end > from) on_way_ += Seconds(end - from);
    covered = std::max(covered, end);
  }
}

CommTimes Executor::comm_times() const {
  return {on_way_, static_cast<double>(waited_ns_.load()) * 1e-9 / plan_.num_threads()};
}

// Returns true if the step's condition is 0. The condition of a device is copied to the host, which
// waits for the device. Consecutive steps with the same condition copy it once.
StatusOr<bool> Executor::LeftOut(const PlanStep& step) {
  if (plan_.device() == nullptr) return *step.run_if == 0.0f;
  const bool known = step.run_if == known_condition_ && &step == behind_known_;
  if (!known) {
    float value = 0;
    TD_RETURN_IF_ERROR(plan_.device()->CopyToHost(&value, step.run_if, sizeof(value)));
    known_condition_ = step.run_if;
    left_out_ = value == 0.0f;
  }
  behind_known_ = &step + 1;
  return left_out_;
}

Status Executor::RunDataflow() {
  const Dataflow::Failure failure =
      dataflow_->Run([this](int step, int thread) { return RunOn(plan_.steps_[step], thread); });
  if (failure.step >= 0) return Fail(plan_.steps_[failure.step], failure.status);
  in_flight_ = -1;
  return OkStatus();
}

// Communications start one after another, so there are no concurrent writes to in_flight_.
Status Executor::RunOn(PlanStep& step, int thread) {
  if (step.run_if != nullptr && *step.run_if == 0.0f) {
    if (step.comm_start >= 0) LeaveOut(step.comm_start);
    return OkStatus();
  }
  step.args.scratch = plan_.scratch_[thread].get();
  const Time begin = observer_ == nullptr ? Time() : SteadyNow();
  TD_RETURN_IF_ERROR(RunStep(step));
  if (observer_ == nullptr) return OkStatus();
  const Time end = SteadyNow();
  MutexLock lock(observing_);
  return observer_->OnStep(step, steps_run_, begin, end);
}

// Marks the communication as completed, so that a wait for it returns at once.
void Executor::LeaveOut(int comm) {
  plan_.done_[comm]->Reset();
  plan_.done_[comm]->Complete(OkStatus());
  comm_began_[comm] = plan_.done_[comm]->ended();
  in_flight_ = comm;
}

// Called after a failed run. Running communications use the plan's memory, so this waits until they
// end or fail from the same cause.
void Executor::EndComm() {
  const Time deadline = SteadyNow() + (plan_.comm_ ? plan_.comm_->timeout() : Duration(0));
  for (int c = 0; c <= in_flight_; ++c) (void)plan_.done_[c]->Wait(deadline);
  in_flight_ = -1;
}

Status Executor::Fail(const PlanStep& step, const Status& status) {
  EndComm();
  return At(step, status);
}

Status AtOp(const Program& program, int op, const Status& status) {
  const Op& at = program.ops[static_cast<size_t>(op)];
  std::string where = absl::StrFormat("op #%d %s", op, at.type);
  if (!at.source.empty()) where += " (" + at.source + ")";
  return Annotate(status, where);
}

}  // namespace tandem
