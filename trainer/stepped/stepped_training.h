// One rank's part of a distributed training whose steps the caller runs. The caller is a program in
// Python with its own loop and its own data. trainer/session instead runs the loop of a job itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/plan.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/config/effective_job.h"
#include "trainer/config/rank_env.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// The order of the calls is AddTo, Join, then BeginStep before each step, then Finish. The caller
// makes the plan of the program before Join, with PlanOptions and comm(). After a failed step the
// caller must call Abort. All ranks must make the same calls. Not thread-safe. The caller must
// destroy the plan before this object, and this object before the device of the scope.
class SteppedTraining {
 public:
  // `settings`: fields of a job (proto/job.proto) and knobs, without model, data and batch size.
  // `environment`: the variables with the rank (rank_env.h), further knobs, and the files with the
  // secret and the certificates. INVALID_ARGUMENT: settings or variables are wrong; the message
  // names each of them. UNIMPLEMENTED: a setting needs the loop of a job. PERMISSION_DENIED: the
  // ranks would communicate over a network without encryption.
  static StatusOr<std::unique_ptr<SteppedTraining>> Make(
      const Settings& settings, const std::map<std::string, std::string>& environment);
  ~SteppedTraining();
  SteppedTraining(const SteppedTraining&) = delete;
  SteppedTraining& operator=(const SteppedTraining&) = delete;

  const JobConfig& config() const { return *job_.config; }
  const RankInfo& rank() const { return rank_; }
  // Notes for the user, one per line; may be empty.
  const std::string& notes() const { return job_.notes; }

  // Adds gradients, communication and the optimizer to `program`, which has a loss. To a program
  // without a loss, adds only the passes over the forward program. The program may be bound to any
  // batch. Each rank has an equal share of the samples of a step. The caller must call AddTo once.
  // INVALID_ARGUMENT, UNIMPLEMENTED: the program or the addresses do not fit the settings.
  Status AddTo(graph::Program* program);
  // Returns the handler of the program's communication; nullptr: the program has no communication.
  // Valid after AddTo.
  exec::CommHandler* comm() { return mode_.training; }
  // Returns the options of the program's plan. `threads`: threads of a kernel; 0: this rank's share
  // of the processors of the host.
  StatusOr<exec::PlanOptions> PlanOptions(int threads) const;

  bool joined() const { return state_ == State::kJoined; }
  // Connects to the other ranks or the pservers. All ranks get the parameters of rank 0, or of the
  // servers if the servers have trained before. `program` is the program of AddTo. `step`: number
  // of steps done. Returns the number of the first step to run. Blocks for at most
  // start_timeout_ms. CANCELLED: `stop` returned true. FAILED_PRECONDITION: the training has joined
  // or ended before.
  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope* scope, int64_t step,
                         const Membership::Stop& stop);
  // Sets the learning rate, and for dropout the position of this rank's samples. `batch`: number of
  // samples of this rank in the step. FAILED_PRECONDITION: the training has not joined, or it has
  // ended.
  Status BeginStep(int64_t step, float learning_rate, int64_t batch);
  // Copies the rows of tables from the pservers into the scope, as of the last step.
  Status Gather();
  // Blocks until all ranks have ended their steps. Then copies the rows of tables into the scope.
  Status Finish();
  // Reports to the other ranks that this rank gives up because of `why`. Later calls return an
  // error.
  void Abort(const Status& why);

 private:
  enum class State : uint8_t { kNew, kJoined, kEnded };

  SteppedTraining() = default;
  Status CheckJoined() const;

  EffectiveJob job_;
  RankInfo rank_;
  ModeSecrets secrets_;
  TrainingMode mode_;             // empty until AddTo
  exec::Scope* scope_ = nullptr;  // set by Join
  State state_ = State::kNew;
};

}  // namespace tandem::trainer
