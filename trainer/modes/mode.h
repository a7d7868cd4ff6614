// The interfaces of a training mode. A training mode determines how the ranks of a job exchange
// gradients and keep their parameters equal. A mode has five parts, each with an interface in this
// file.
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

// Adds the mode's operators to the programs of this rank. The session calls the methods in the
// order of their declaration.
class ProgramShaper {
 public:
  virtual ~ProgramShaper() = default;
  // Assigns the model's operators to ranks (op_device). Runs before all passes.
  virtual Status PlaceOperators(graph::Program&) { return OkStatus(); }
  // Inserts the communication operators and the optimizer's operators after the operators that
  // compute gradients.
  virtual Status Distribute(graph::Program& program,
                            const std::vector<graph::ParamGrad>& grads) = 0;
  // Inserts the communication operators into the forward program of evaluations.
  virtual Status DistributeForward(graph::Program&) { return OkStatus(); }
  // Removes the parameters that only other ranks store from the training program. Runs after all
  // passes.
  virtual Status SplitParams(graph::Program&) { return OkStatus(); }
  // Returns the part of the forward program that this rank runs in evaluations. `bound`: the
  // forward program, bound to the size of the rank's batch.
  virtual StatusOr<graph::Program> EvaluatedPart(const graph::Program& bound) { return bound; }
};

// This rank's connections to its peers, from the first step to the last. Not thread-safe, except
// WaitedSeconds.
class Membership {
 public:
  // Returns whether this rank was asked to stop. The mode calls this function while the rank waits
  // for peers. Empty: the rank is never asked to stop.
  using Stop = std::function<bool()>;

  virtual ~Membership() = default;
  // Connects to the peers and makes the parameters of all trainers equal. `scope`: contains the
  // initial values, or the values of a checkpoint of step `step`. `state`: contains the
  // checkpoint's optimizer slots if the mode stores them outside the scope. If parameters are
  // divided, `state` also contains the parameters. Returns the first step to run. CANCELLED: `stop`
  // returned true while this rank waited for peers. In a mode with pservers, the session may call
  // Join again after an aborted step. The trainer is then a new incarnation, and the servers
  // discard its pushes of the aborted step.
  virtual StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope,
                                 const TensorMap& state, int64_t step, const Stop& stop) = 0;
  // Recovers after a step or Finish failed with `why`. Blocks until the lost peers have returned,
  // and makes the state of all ranks equal. If necessary, rolls the state of this rank back to
  // `point`. Returns the next step to run. Returns `why` if recovery is impossible or if `stop`
  // returns true.
  virtual StatusOr<int64_t> Recover(const Status& why, const graph::Program&,
                                    StepRollback& /*point*/, const Stop&) {
    return why;
  }
  // Returns whether this rank must stop after the current step. `mine`: this rank was asked to
  // stop. The default returns `mine`. If state is divided among the ranks, returns whether any rank
  // was asked to stop.
  virtual StatusOr<bool> Stopping(bool mine) { return mine; }
  // Returns `value`. If each rank stores only a part of the parameters, returns the `value` of rank
  // 0; then all ranks must call the function.
  virtual StatusOr<int64_t> ValueOfRank0(int64_t value) { return value; }
  // Returns the `value` of each rank, by rank, if the ranks have equal parameters after each step.
  // Then all ranks must call the function. Empty: the mode does not compare its ranks.
  virtual StatusOr<std::vector<int64_t>> ValuesOfRanks(int64_t /*value*/) {
    return std::vector<int64_t>();
  }
  // Returns for each rank the seconds that it has waited for its peers, as of the last exchange of
  // these times. Empty: no exchange has ended. Thread-safe.
  virtual std::vector<double> WaitedSeconds() const { return {}; }
  // Ends exchanges that are in flight, so that the evaluation and the checkpoint of the last step
  // have the result of the job. The session calls EndSteps once, after the last step, before them.
  virtual Status EndSteps() { return OkStatus(); }
  // Blocks until all trainers have finished. The session calls Finish once, after the last step.
  // After an error the session must call Abort instead.
  virtual Status Finish() = 0;
  // Reports to the peers that this trainer gives up. `why`: the reason; CANCELLED: the trainer was
  // asked to stop. Blocks for at most one call.
  virtual void Abort(const Status& why) = 0;
  // Releases the mode's resources on the scope's device, before the device is destroyed. The
  // session calls this method once, after all other methods.
  virtual void ReleaseDeviceResources() {}
};

// Collects the values of a checkpoint: parameters, optimizer slots and statistics. state_is_spread
// and params_are_spread are valid after ProgramShaper has built the programs.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // Returns whether optimizer state is divided among the ranks. In this case all ranks must call
  // State, must call Membership::Stopping after each step, and must stop after the same step.
  virtual bool state_is_spread() const { return false; }
  // Returns whether parameters are divided among the ranks. In this case optimizer state is divided
  // too, all ranks must call Params, and all ranks take part in evaluations.
  virtual bool params_are_spread() const { return false; }
  // Returns optimizer slots and statistics by the name of the variable, in new memory of `device`.
  virtual StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                                    Device& device) = 0;
  // Returns the parameters by name. If parameters are divided, only rank 0 gets all parameters, in
  // new memory of `host`.
  virtual StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                                     Device& host) = 0;
};

// Accesses the tables whose rows pservers store.
class ServerTables {
 public:
  virtual ~ServerTables() = default;
  // Copies table rows from the servers into the scope, as of the last step. Tables that are not
  // variables of the scope are not copied. StateKeeper::State and Membership::Finish do the same.
  virtual Status Gather() = 0;
  // Returns a function that writes a file (trainer/ps/table_file.h) with the rows of tables outside
  // the scope, as of the last step. Empty: there are no such tables.
  virtual std::function<Status(const std::string& path)> Writer() = 0;
  // Sets the file with the table rows of the checkpoint; "": the checkpoint has no such file. The
  // session must call ReadFrom before Join. FAILED_PRECONDITION: the mode needs a file, but `path`
  // is ""; or the mode supports no file, but `path` is not "".
  virtual Status ReadFrom(const std::string& path) = 0;
};

// The work of a mode before and after each step.
class StepHooks {
 public:
  virtual ~StepHooks() = default;
  // Prepares a step. The session must call BeginStep before each step.
  virtual Status BeginStep(int64_t step, float learning_rate) = 0;
  // Sets the Unix time in milliseconds of the newest record of the next steps; 0: unknown. The
  // session calls SetEventTime before BeginStep if the data is a stream.
  virtual void SetEventTime(int64_t /*ms*/) {}
  // Returns whether the mode uses data of the next step. In this case the session must call Foresee
  // before each step, with the reader's hint.
  virtual bool looks_ahead() const { return false; }
  virtual void Foresee(const NextBatchHint&) {}
  // Returns a log line about decisions of the mode since the last call; "": there were no
  // decisions. The session calls TakeMessage after each run of steps; `step` is the last step of
  // the run.
  virtual std::string TakeMessage(int64_t /*step*/) { return ""; }
  // Sets the mode's counters. The session must call AddCounts after Membership::Finish.
  virtual void AddCounts(ModeCounts*) const {}
};

// The work of a rank in evaluations.
enum class EvaluationPart : uint8_t {
  kNone,
  kWhole,               // runs the whole forward program; rank 0 only
  kSection,             // runs the part that ProgramShaper::EvaluatedPart returned
  kServesCommunication  // executes only the communication operators of rank 0's program
};

// The parts of a training mode. All pointers point into `owner`.
struct TrainingMode {
  std::shared_ptr<void> owner;
  ProgramShaper* programs = nullptr;
  Membership* membership = nullptr;
  StateKeeper* state = nullptr;
  StepHooks* steps = nullptr;
  // Handlers for the communication operators of training and of evaluation. nullptr: there are no
  // such operators.
  exec::CommHandler* training = nullptr;
  exec::CommHandler* evaluation = nullptr;
  ServerTables* tables = nullptr;  // nullptr: the mode has no tables on pservers
  const RpcLog* calls = nullptr;   // the calls to pservers; nullptr: not recorded
  EvaluationPart evaluation_part = EvaluationPart::kNone;
  int sections = 1;  // number of consecutive ranks that compute the same part of the batch together
  int micro_batches = 1;  // number of parts into which this rank's batch is divided
};

// Returns the work of `rank` in evaluations if every rank has all parameters.
inline EvaluationPart WholeOnRank0(int rank) {
  return rank == 0 ? EvaluationPart::kWhole : EvaluationPart::kNone;
}

}  // namespace tandem::trainer
