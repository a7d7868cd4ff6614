// A training mode: how the ranks of a job exchange gradients and keep their parameters equal. A
// mode has five parts with one interface each. One file implements each mode (README.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"
#include "trainer/ps/next_batch_hint.h"

namespace tandem::trainer {

class RpcLog;
class StepRollback;
struct ModeCounts;

// Adds the mode's operators to the programs of this rank. The methods are called in this order.
class ProgramShaper {
 public:
  virtual ~ProgramShaper() = default;
  // Assigns the model's operators to ranks (op_device). Runs before all passes.
  virtual Status PlaceOperators(Program&) { return OkStatus(); }
  // Inserts communication and optimizer operators after the gradients.
  virtual Status Distribute(Program& program, const std::vector<ParamGrad>& grads) = 0;
  // Inserts the communication of the forward program of evaluations.
  virtual Status DistributeForward(Program&) { return OkStatus(); }
  // Removes parameters that other ranks store from the training program. Runs after all passes.
  virtual Status SplitParams(Program&) { return OkStatus(); }
  // Returns the part of the forward program that this rank runs in evaluations. `bound` is bound to
  // the rank's batch.
  virtual StatusOr<Program> EvaluatedPart(const Program& bound) { return bound; }
};

// This rank's connections to its peers, from the first step to the last. Not thread-safe, except
// WaitedSeconds.
class Membership {
 public:
  // Whether this rank was asked to stop while it waits for peers; empty: never.
  using Stop = std::function<bool()>;

  virtual ~Membership() = default;
  // Connects to the peers and makes the parameters of all trainers equal. `scope` contains initial
  // values, or the values of a checkpoint of step `step`.
  // `state` contains the checkpoint's optimizer slots if the mode stores them outside the scope;
  // with divided parameters it contains the parameters too. Returns the first step to run.
  // CANCELLED: `stop` returned true while it waited for peers.
  // With pservers it can be called again after an aborted step. The trainer is then a new
  // incarnation, and the servers treat that step as not begun.
  virtual StatusOr<int64_t> Join(const Program& program, Scope& scope, const TensorMap& state,
                                 int64_t step, const Stop& stop) = 0;
  // Recovers after a step or Finish failed with `why`. Waits until the lost peers are back and
  // brings all ranks to the same state; this rank's state is rolled back to `point` if necessary.
  // Returns the step to continue with. Returns `why` if recovery is impossible or `stop` returns
  // true.
  virtual StatusOr<int64_t> Recover(const Status& why, const Program&, StepRollback& /*point*/,
                                    const Stop&) {
    return why;
  }
  // Returns whether to stop now. `mine`: this rank was asked to stop. With divided state it returns
  // whether any rank was asked.
  virtual StatusOr<bool> Stopping(bool mine) { return mine; }
  // Returns rank 0's `value` on every rank if parameters are divided, else `value`.
  virtual StatusOr<int64_t> ValueOfRank0(int64_t value) { return value; }
  // Seconds that each rank has waited for its peers, by rank, as of the last exchange; empty: no
  // exchange yet. Thread-safe.
  virtual std::vector<double> WaitedSeconds() const { return {}; }
  // Waits until all trainers have finished. Call it once, after the last step. After an error call
  // Abort instead.
  virtual Status Finish() = 0;
  // Reports to the peers that this trainer gives up, and why (CANCELLED: it was asked to stop).
  // Blocks for one call at most.
  virtual void Abort(const Status& why) = 0;
  // Releases the mode's resources on the scope's device, which is about to be destroyed. Called
  // once, as the last method.
  virtual void ReleaseDeviceResources() {}
};

// The values of a checkpoint: parameters, optimizer slots and statistics. Its answers about the
// division of values are valid once the programs are built.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // Whether optimizer state is divided among the ranks. If so, all ranks call State, call
  // Membership::Stopping after each step, and stop after the same step.
  virtual bool state_is_spread() const { return false; }
  // Whether parameters are divided among the ranks. If so, state is too, all ranks call Params, and
  // other ranks than rank 0 take part in evaluations.
  virtual bool params_are_spread() const { return false; }
  // Returns optimizer slots and statistics by variable name, in new memory of `device`.
  virtual StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) = 0;
  // Returns the parameters by name. If they are divided, they are complete on rank 0 only, in new
  // memory of `host`.
  virtual StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host) = 0;
};

// Tables of rows that pservers store.
class ServerTables {
 public:
  virtual ~ServerTables() = default;
  // Copies rows that the scope has too into it, as of the last step. StateKeeper::State and
  // Membership::Finish do the same.
  virtual Status Gather() = 0;
  // Returns a function that writes the rows of tables outside the scope, as of the last step, to a
  // file (trainer/ps/table_file.h). Empty: there are no such tables.
  virtual std::function<Status(const std::string& path)> Writer() = 0;
  // Receives the checkpoint's file of rows before Join; "": it has none. FAILED_PRECONDITION: the
  // file does not fit to where the mode stores its tables.
  virtual Status ReadFrom(const std::string& path) = 0;
};

// The mode's work around each step.
class StepHooks {
 public:
  virtual ~StepHooks() = default;
  // Receives the number and the learning rate of each step before it begins.
  virtual Status BeginStep(int64_t step, float learning_rate) = 0;
  // Whether the mode uses data of the next step. If so, Foresee gets the reader's hint before each
  // step.
  virtual bool looks_ahead() const { return false; }
  virtual void Foresee(const NextBatchHint&) {}
  // Returns a log line about decisions of the mode since the last call; "": none. Called after each
  // run of steps, the last of which was `step`.
  virtual std::string TakeMessage(int64_t /*step*/) { return ""; }
  // Sets the mode's counters. Call it after Membership::Finish.
  virtual void AddCounts(ModeCounts*) const {}
};

// The part of a rank in evaluations.
enum class EvaluationPart : uint8_t {
  kNone,
  kWhole,               // runs the forward program; rank 0 only
  kSection,             // runs ProgramShaper::EvaluatedPart
  kServesCommunication  // only performs the communication of rank 0's program
};

// All parts of a mode, as pointers into `owner`.
struct TrainingMode {
  std::shared_ptr<void> owner;
  ProgramShaper* programs = nullptr;
  Membership* membership = nullptr;
  StateKeeper* state = nullptr;
  StepHooks* steps = nullptr;
  // Run the communication operators of training and of evaluation. nullptr: there are none.
  CommHandler* training = nullptr;
  CommHandler* evaluation = nullptr;
  ServerTables* tables = nullptr;  // nullptr: no tables on pservers
  const RpcLog* calls = nullptr;   // calls to pservers; nullptr: the job does not record them
  EvaluationPart evaluation_part = EvaluationPart::kNone;
  int sections = 1;       // consecutive ranks that work on the same part of the batch
  int micro_batches = 1;  // parts in which the program computes this rank's batch
};

// The part of `rank` where all parameters are on each rank.
inline EvaluationPart WholeOnRank0(int rank) {
  return rank == 0 ? EvaluationPart::kWhole : EvaluationPart::kNone;
}

}  // namespace tandem::trainer
