// Interface of a training mode. A mode adds operators after the gradients, communicates gradients,
// and keeps the parameters of all trainers equal. Each mode has one implementation.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "kernels/exec/comm.h"
#include "kernels/exec/plan.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/passes/dgc.h"
#include "kernels/graph/passes/distribute.h"
#include "kernels/graph/program.h"
#include "pserver/client/client.h"
#include "pserver/client/placement/partition.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/step_rollback.h"
#include "trainer/ps/async_communicator.h"
#include "trainer/ps/next_batch_hint.h"

namespace tandem::collective {
class Communicator;
struct WorldConfig;
}  // namespace tandem::collective

namespace tandem::trainer {

class RpcLog;

// When the servers apply a trainer's gradients, and what a trainer waits for.
enum class PsSyncMode : uint8_t {
  kSync,       // once per step, after the gradients of all trainers arrived; every trainer waits
  kHalfAsync,  // immediately; a trainer waits for its own push and pull
  kASync,      // immediately; a trainer does not wait (async_communicator.h)
  kGeo         // trainers update local parameters and exchange differences every k steps
};

// Division of the parameters among the ranks (kernels/graph/passes/shard_params.h).
struct ShardOptions {
  int64_t segment_bytes = 0;
  int group = 0;  // ranks that together hold all parameters; 0: all ranks
};

// The properties of a job that the modes need.
struct ModeOptions {
  std::string job;
  int rank = 0, ranks = 1;
  std::string secret;   // the job's secret; empty: none
  Agreement agreement;  // trainer/job/job_agreement.h; empty: not compared
  OptimizerSpec optimizer;
  uint64_t seed = 0;  // of the initial values
  bool fuse_all_reduce = true;
  GroupRule group_rule;
  bool between_devices = false;     // ranks are devices rather than hosts
  bool half_communication = false;  // f32 gradients are sent as f16
  bool tree_order = false;          // order of sums over ranks (collective/schedule/ring.h)
  bool sync_batch_norm = false;
  bool update_by_owner = false;        // reduce_strategy Reduce
  bool fuse_broadcast = false;         // used with update_by_owner
  std::optional<ShardOptions> shard;   // parameters too are stored on their owners only
  std::optional<AverageRule> average;  // LocalSGD: parameters are sent, not gradients
  std::optional<DgcRule> dgc;          // only a few elements of large gradients are sent
  Duration start_timeout = std::chrono::seconds(60);
  Duration step_timeout = std::chrono::seconds(60);
  // pserver
  std::vector<std::string> servers;  // host:port
  PsSyncMode regime = PsSyncMode::kSync;
  AsyncOptions async;          // for kASync
  int64_t geo_steps = 0;       // for kGeo: steps between two exchanges
  int64_t max_staleness = -1;  // for kHalfAsync; -1: no bound
  bool launch_barrier = true;
  bool rpc_profiler = false;  // calls are recorded
  int rpc_retries = 3;
  ps::PsTransport transport = ps::PsTransport::kAuto;  // pserver/client/client.h, like the next one
  ps::PsNonfinite nonfinite = ps::PsNonfinite::kReject;
  Duration lost_after = std::chrono::seconds(900);
  double delay_compensation = 0;
  bool split_messages = false;
  int64_t row_cache_bytes = 0;
  int64_t row_cache_versions = 0;
  ps::PsDispatcher dispatcher = ps::PsDispatcher::kRoundRobin;
  bool slice_var_up = true;
  int64_t min_block_size = 8192;        // elements
  rpc::TlsFiles tls;                    // for connections to servers
  bool insecure_allow_network = false;  // allow servers at network addresses without TLS
  // collective
  std::string rendezvous;  // these three: WorldConfig, collective/rendezvous/rendezvous.h
  std::string listen_host;
  bool network_allowed = false;
  bool peers_return = false;  // killed processes are restarted (tandemrun --max_restarts)
  bool restarted = false;     // this rank is such a restarted process
  std::string launcher;       // address for reports of unresponsive processes
  bool replaces = false;      // the launcher restarts these processes (pserver, hybrid)
  std::vector<int> members;   // the launcher's number of each rank; empty: the same
  // Ranks of another version are not accepted; 0: there is one world only.
  int64_t world_version = 0;
  bool has_state = false;  // this rank continues from its state in memory
  collective::TransportKind carrier =
      collective::TransportKind::kAuto;  // transport between the ranks (collective/host/connect.h)
  int comm_num = 1;                // number of communicators; bucket i uses number i modulo this
  bool one_comm_at_a_time = true;  // for any number of communicators
  int group = 1;                   // ranks per group of the hierarchical allreduce; 1: none
  bool group_by_leaders = false;   // HierarchyForm::kLeaders (collective/schedule/hierarchy.h)
  bool choose_by_model = false;    // allreduce algorithms (trainer/modes/allreduce_choice.h)
  int sections = 1;                // pipeline stages, each with its own ranks (pipeline_mode.cc)
  int micro_batches = 1;           // per batch of a pipeline
  // hybrid
  int heter_workers = 0;     // the last ranks are heter workers (heter_mode.cc)
  std::string device_guard;  // "cpu" or "gpu": the operators of this device run on heter workers
};

// Not thread-safe, except that communication ends on the mode's own threads.
class ModeDriver {
 public:
  virtual ~ModeDriver() = default;
  // Assigns the model's operators to ranks (op_device). Runs before all passes.
  virtual Status PlaceOperators(Program&) { return OkStatus(); }
  // Inserts communication and optimizer operators after the gradients.
  virtual Status Distribute(Program& program, const std::vector<ParamGrad>& grads) = 0;
  // Does the same for the forward program of evaluations.
  virtual Status DistributeForward(Program&) { return OkStatus(); }
  // Removes parameters that other ranks store from the training program. Runs after all passes.
  virtual Status Shard(Program&) { return OkStatus(); }
  // Runs the communication operators of training and evaluation. nullptr: there are none.
  virtual CommHandler* comm() { return nullptr; }
  virtual CommHandler* evaluation_comm() { return nullptr; }
  // Number of consecutive ranks that work on the same part of the batch.
  virtual int sections() const { return 1; }
  // Number of parts in which the program computes this rank's batch.
  virtual int micro_batches() const { return 1; }
  // Whether this rank takes part in evaluations, as rank 0 does. Evaluated() returns the part of
  // the forward program that it runs, which is bound to the rank's batch.
  virtual bool evaluates() const { return params_are_spread(); }
  virtual StatusOr<Program> Evaluated(const Program& forward) { return forward; }
  // Whether this rank only performs the communication of rank 0's program in evaluations.
  virtual bool serves() const { return true; }
  // Connects to the peers and makes the parameters of all trainers equal. `scope` contains initial
  // values, or the values of a checkpoint of step `step`.
  // `state` contains the checkpoint's optimizer slots if the mode stores them outside the scope;
  // with pipeline stages it contains the parameters too. Returns the first step to run. CANCELLED:
  // `stop` returned true while it waited for peers.
  // In pserver mode it can be called again after an aborted step. The trainer is then a new
  // incarnation, and the servers treat that step as not begun.
  virtual StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                                  int64_t step, const std::function<bool()>& stop) = 0;
  // Recovers after a step or Finish failed with `why`. Waits until the lost peers are back and
  // brings all ranks to the same state; this rank's state is rolled back to `point` if necessary.
  // Returns the step to continue with. Returns `why` if recovery is impossible or `stop` returns
  // true.
  virtual StatusOr<int64_t> Recover(const Status& why, const Program&, StepRollback&,
                                    const std::function<bool()>&) {
    return why;
  }
  // Seconds that each rank has waited for its peers, by rank, as of the last exchange; empty: no
  // exchange yet. Thread-safe.
  virtual std::vector<double> WaitedSeconds() const { return {}; }
  // Receives the number and the learning rate of each step before it begins.
  virtual Status BeginStep(int64_t step, float learning_rate) = 0;
  // Whether the mode uses data of the next step. If so, Foresee gets the reader's hint before each
  // step.
  virtual bool looks_ahead() const { return false; }
  virtual void Foresee(const NextBatchHint&) {}
  // Whether optimizer state is divided among the ranks. If so, all ranks call State, call Stopping
  // after each step, and stop after the same step.
  virtual bool state_is_spread() const { return false; }
  // Whether parameters are divided among the ranks. If so, all ranks call Params and Tell, and take
  // part in evaluations.
  virtual bool params_are_spread() const { return false; }
  // Returns whether to stop now. `mine`: this rank was asked to stop. With divided state it returns
  // whether any rank was asked.
  virtual StatusOr<bool> Stopping(bool mine) { return mine; }
  // Copies parameters that are stored elsewhere into the scope, as of the last step. State and
  // Finish do the same.
  virtual Status Gather() { return OkStatus(); }
  // Returns optimizer slots and statistics by variable name for a checkpoint, in new memory of
  // `device`.
  virtual StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) = 0;
  // Returns the parameters by name, like ParamsOf(). If parameters are divided, they are complete
  // on rank 0 only, in new memory.
  virtual StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host);
  // Returns rank 0's `value` on every rank if parameters are divided.
  virtual StatusOr<int64_t> Tell(int64_t value) { return value; }
  // Returns a function that writes the other part of a checkpoint (trainer/ps/table_file.h): rows
  // of tables outside the scope, as of the last step. Empty: there are none.
  virtual std::function<Status(const std::string& path)> table_writer() { return nullptr; }
  // Receives the checkpoint's file of rows before Start; "": it has none. FAILED_PRECONDITION: the
  // file does not fit to where the mode stores its tables.
  virtual Status TakeTables(const std::string& path) {
    if (path.empty()) return OkStatus();
    return FailedPrecondition(
        "%s: the checkpoint has tables that only pservers store, which this mode does not support "
        "[TD4021]; hint: resume with --servers=N, or start with another checkpoint.dir",
        path);
  }
  // The recorded calls to pservers; nullptr: the job does not record them.
  virtual const RpcLog* rpc_log() const { return nullptr; }
  // Waits until all trainers have finished. Call it once, after the last step. After an error call
  // Abort instead.
  virtual Status Finish() = 0;
  // Adds the mode's counters by name (trainer/session/run_counts.h). Call it after Finish.
  virtual void AddCounts(std::map<std::string, double>*) const {}
  // Returns a log line about decisions of the mode since the last call; "": none. Called after each
  // run of steps, the last of which was `step`.
  virtual std::string News(int64_t) { return ""; }
  // Releases the mode's resources on the scope's device, which is about to be destroyed. Called
  // once, as the last method.
  virtual void ReleaseDeviceResources() {}
  // Reports to the peers that this trainer gives up, and why (CANCELLED: it was asked to stop).
  // Blocks for one call at most.
  virtual void Abort(const Status& why) = 0;
};

std::unique_ptr<ModeDriver> MakeLocalMode(const ModeOptions& options);
// Makes collective mode over `communicators` (options.comm_num). If empty, Start connects them; it
// uses NCCL if the scope is on a device.
std::unique_ptr<ModeDriver> MakeCollectiveMode(
    const ModeOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators);
// Makes collective mode with pipeline stages. INVALID_ARGUMENT: the number of ranks does not fit.
StatusOr<std::unique_ptr<ModeDriver>> MakePipelineMode(const ModeOptions& options);
std::unique_ptr<ModeDriver> MakePserverMode(const ModeOptions& options);
// Makes the mode of use_thread_barrier, in which the replicas of one process synchronise before
// each push. `places` is the collective mode among them. `servers` is the pserver mode of the first
// replica; the others have none. `options` are those of this replica.
std::unique_ptr<ModeDriver> MakeThreadBarrierMode(const ModeOptions& options,
                                                  std::unique_ptr<ModeDriver> places,
                                                  std::unique_ptr<ModeDriver> servers);
// Makes hybrid mode: tables as in pserver mode, everything else as in collective mode.
StatusOr<std::unique_ptr<ModeDriver>> MakeHybridMode(const ModeOptions& options);
// Makes hybrid mode with heter workers, each for the same number of trainers.
StatusOr<std::unique_ptr<ModeDriver>> MakeHeterMode(const ModeOptions& options);

// ---- Shared by the modes that communicate ------------------------------------------------------

// Calls DensifyAll. Rank 0 logs a line if it changes anything.
StatusOr<std::vector<ParamGrad>> DensifyGradients(Program& program,
                                                  const std::vector<ParamGrad>& grads,
                                                  const ModeOptions& options);

// Divides the gradients into groups, one per collective call. With fuse_all_reduce off each
// gradient is its own group.
std::vector<std::vector<ParamGrad>> GroupedGradients(const Program& program,
                                                     const std::vector<ParamGrad>& grads,
                                                     const ModeOptions& options);

// Converts the loss of a connected peer to ABORTED (exit code 200), because a restart of the job
// can help. A service that never replied stays UNAVAILABLE. Other statuses are unchanged.
Status AsLostPeer(const Status& status);

// Returns this rank's place in the world of the job. The rendezvous ends within start_timeout.
collective::WorldConfig WorldOf(const ModeOptions& options, const std::function<bool()>& stop);

// Returns whether `mine` is true on any rank. Ends within `patience`.
StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience);

// Checks that the tables on pservers and the dense parameters on ranks precede the same step, or
// that the tables are one step ahead. In sync mode the servers' version is the next step.
Status CheckTogether(PsSyncMode regime, int64_t of_tables, int64_t of_dense);

// UNIMPLEMENTED (names the table): a table has table_rules, but this mode stores tables whole.
Status RefuseTableRules(const Program& program);

// ---- Shared by the modes that update parameters in the trainer itself ---------------------------

// Sets a state variable of one f32 if the program has it.
Status SetScalar(Scope& scope, const char* var, float value);
// Returns the value of `tensor`, one f32 on the scope's device.
StatusOr<float> ReadScalar(const Scope& scope, const Tensor& tensor);
// Returns the value of a plan's variable of one f32.
StatusOr<float> ReadScalar(const Scope& scope, const Plan& plan, std::string_view var);
inline Status SetLearningRate(Scope& scope, float learning_rate) {
  return SetScalar(scope, kLearningRateVar, learning_rate);
}
// Returns the parameters of `program`. Parameters on the CPU share the scope's memory; others are
// copied to memory of `host`.
StatusOr<TensorMap> ParamsOf(const Program& program, Scope& scope, Device& host);

// Copies a checkpoint's tensors into the scope. Variables that the checkpoint lacks are skipped:
// the mode stores these slots elsewhere. FAILED_PRECONDITION (names `dir`): a tensor has another
// shape or type.
Status PutInto(const TensorMap& tensors, const std::string& dir, Scope& scope);
// Returns copies, in memory of `host`, of every saved kState variable except the learning rate.
StatusOr<TensorMap> ScopeState(const Program& program, const Scope& scope, Device& host);

}  // namespace tandem::trainer
