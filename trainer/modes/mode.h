// What a training mode does to a trainer: which operators stand behind the gradients, who carries
// them, and how everybody comes to the same parameters. One implementation per mode.
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

// When a trainer's gradients change the parameters on the servers, and for what it waits.
enum class PsSyncMode : uint8_t {
  kSync,       // once per step, when all trainers' are there; everybody waits for it
  kHalfAsync,  // at once; a trainer waits for its own push and pull
  kASync,      // at once; a trainer waits for nothing (async_communicator.h)
  kGeo         // trainers update their own parameters and exchange differences every k steps
};

// How parameters are divided among the ranks (kernels/graph/passes/shard_params.h).
struct ShardOptions {
  int64_t segment_bytes = 0;
  int group = 0;  // ranks that have all parameters together; 0: all ranks
};

// What the modes need to know of a job.
struct ModeOptions {
  std::string job;
  int rank = 0, ranks = 1;
  std::string secret;   // of the job; empty: none
  Agreement agreement;  // trainer/job/job_agreement.h; empty: nothing is compared
  OptimizerSpec optimizer;
  uint64_t seed = 0;  // of the initial values
  bool fuse_all_reduce = true;
  GroupRule group_rule;
  bool between_devices = false;     // ranks are devices, and no hosts
  bool half_communication = false;  // f32 gradients travel as f16
  bool tree_order = false;          // sums over ranks (collective/schedule/ring.h)
  bool sync_batch_norm = false;
  bool update_by_owner = false;        // reduce_strategy Reduce
  bool fuse_broadcast = false;         // with it
  std::optional<ShardOptions> shard;   // parameters too lie on their owners alone
  std::optional<AverageRule> average;  // LocalSGD: parameters travel, not gradients
  std::optional<DgcRule> dgc;          // of large gradients a few elements travel
  Duration start_timeout = std::chrono::seconds(60);
  Duration step_timeout = std::chrono::seconds(60);
  // pserver
  std::vector<std::string> servers;  // host:port
  PsSyncMode regime = PsSyncMode::kSync;
  AsyncOptions async;          // of kASync
  int64_t geo_steps = 0;       // of kGeo: steps between two exchanges
  int64_t max_staleness = -1;  // of kHalfAsync; -1: no bound
  bool launch_barrier = true;
  bool rpc_profiler = false;  // calls are recorded
  int rpc_retries = 3;
  ps::PsTransport transport = ps::PsTransport::kAuto;  // pserver/client/client.h, as the next
  ps::PsNonfinite nonfinite = ps::PsNonfinite::kReject;
  Duration lost_after = std::chrono::seconds(900);
  double delay_compensation = 0;
  bool split_messages = false;
  int64_t row_cache_bytes = 0;
  int64_t row_cache_versions = 0;
  ps::PsDispatcher dispatcher = ps::PsDispatcher::kRoundRobin;
  bool slice_var_up = true;
  int64_t min_block_size = 8192;        // elements
  rpc::TlsFiles tls;                    // towards the servers
  bool insecure_allow_network = false;  // without TLS, servers at addresses of a network
  // collective
  std::string rendezvous;  // these three: WorldConfig, collective/rendezvous/rendezvous.h
  std::string listen_host;
  bool network_allowed = false;
  bool peers_return = false;  // who is killed is started again (tandemrun --max_restarts)
  bool restarted = false;     // and this rank was
  std::string launcher;       // who is told of processes that do not answer
  bool replaces = false;      // ... and starts them again (pserver, hybrid)
  std::vector<int> members;   // the ranks by their numbers there; empty: the same
  int64_t world_version = 0;  // ranks with another one are not met; 0: there is one alone
  bool has_state = false;     // this rank goes on from what it has in memory
  collective::TransportKind carrier =
      collective::TransportKind::kAuto;  // what connects the ranks (collective/host/connect.h)
  int comm_num = 1;                      // communicators; bucket i travels on number i modulo this
  bool one_comm_at_a_time = true;        // whatever their number
  int group = 1;                         // ranks of a group of the hierarchical allreduce; 1: none
  bool group_by_leaders = false;  // HierarchyForm::kLeaders (collective/schedule/hierarchy.h)
  bool choose_by_model = false;   // algorithms of allreduces (trainer/modes/allreduce_choice.h)
  int sections = 1;               // of the program, with ranks of their own (pipeline_mode.cc)
  int micro_batches = 1;          // of a pipeline
  // hybrid
  int heter_workers = 0;     // the last of the ranks (heter_mode.cc)
  std::string device_guard;  // "cpu" or "gpu": what they run
};

// One thread, except that communication ends on threads of the mode's own.
class ModeDriver {
 public:
  virtual ~ModeDriver() = default;
  // Says of the operators of the model which ranks run them (op_device), before all passes.
  virtual Status PlaceOperators(Program&) { return OkStatus(); }
  // Inserts communication and optimizer operators behind the gradients.
  virtual Status Distribute(Program& program, const std::vector<ParamGrad>& grads) = 0;
  // The same for the forward program that is evaluated.
  virtual Status DistributeForward(Program&) { return OkStatus(); }
  // Behind all passes: parameters that other ranks keep leave the training program.
  virtual Status Shard(Program&) { return OkStatus(); }
  // Runs the communication operators of training, and those of evaluation; nullptr when there are
  // none.
  virtual CommHandler* comm() { return nullptr; }
  virtual CommHandler* evaluation_comm() { return nullptr; }
  // So many ranks, one behind the other, work on the same piece of the batch.
  virtual int sections() const { return 1; }
  // Parts of this rank's batch in which its program computes it.
  virtual int micro_batches() const { return 1; }
  // Whether this rank takes part in evaluations, as rank 0 does; and what it then runs of the
  // forward program, which is bound to its batch.
  virtual bool evaluates() const { return params_are_spread(); }
  virtual StatusOr<Program> Evaluated(const Program& forward) { return forward; }
  // Whether that is the communication of rank 0's program and no more.
  virtual bool serves() const { return true; }
  // Connects to the others and makes everybody's parameters equal. `scope` holds initial values, or
  // those of a checkpoint of step `step`; `state` that checkpoint's optimizer slots, where the mode
  // keeps them elsewhere than in the scope; with sections its parameters too. Returns the step to
  // begin with. Waits for others only until `stop` says so (CANCELLED). In pserver mode it may be
  // called again once a step was broken off: as a new incarnation, for which the servers take that
  // step as not begun.
  virtual StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                                  int64_t step, const std::function<bool()>& stop) = 0;
  // When a step or Finish failed with `why`: waits until those who were lost have come again, and
  // brings everybody to the same state, this rank's being undone to `point` if need be. Returns the
  // step to go on with; `why` where that is no help, or once `stop` says so.
  virtual StatusOr<int64_t> Recover(const Status& why, const Program&, StepRollback&,
                                    const std::function<bool()>&) {
    return why;
  }
  // Seconds that each rank has waited for the others, by rank, as the ranks told each other last;
  // empty: they have not. From any thread.
  virtual std::vector<double> WaitedSeconds() const { return {}; }
  // Before each step: its number and learning rate.
  virtual Status BeginStep(int64_t step, float learning_rate) = 0;
  // Whether the mode has a use for the data of the next step; then it is told before each step what
  // the reader knows of it.
  virtual bool looks_ahead() const { return false; }
  virtual void Foresee(const NextBatchHint&) {}
  // Whether optimizer state is spread over the ranks. Then all of them call State, and all stop,
  // behind the same step: they call Stopping behind each.
  virtual bool state_is_spread() const { return false; }
  // Whether parameters are. Then all ranks call Params and Tell, and take part in evaluations.
  virtual bool params_are_spread() const { return false; }
  // Whether to stop now: `mine` says whether this rank was asked to. With spread state, whether any
  // rank was.
  virtual StatusOr<bool> Stopping(bool mine) { return mine; }
  // Brings parameters that are kept elsewhere into the scope, as they are behind the last step.
  // State and Finish do so too.
  virtual Status Gather() { return OkStatus(); }
  // Optimizer slots and statistics by variable name, for a checkpoint; new memory from `device`.
  virtual StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) = 0;
  // The parameters by name, as ParamsOf; where they are spread on rank 0 alone, in new memory.
  virtual StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host);
  // With spread parameters: rank 0's `value` on every rank.
  virtual StatusOr<int64_t> Tell(int64_t value) { return value; }
  // Writes what checkpoints hold beside that (trainer/ps/table_file.h): rows of tables that are in
  // no scope, as they are behind the last step. Empty when there are none.
  virtual std::function<Status(const std::string& path)> table_writer() { return nullptr; }
  // Before Start with a checkpoint: its file of rows, "" when it has none. FAILED_PRECONDITION when
  // that does not fit to where the mode has its tables.
  virtual Status TakeTables(const std::string& path) {
    if (path.empty()) return OkStatus();
    return FailedPrecondition(
        "%s: tables that lie on pservers alone cannot go on in this mode [TD4021]; hint: go on "
        "with "
        "--servers=N, or begin again with another checkpoint.dir",
        path);
  }
  // The calls to pservers, where the job wants them recorded; else nullptr.
  virtual const RpcLog* rpc_log() const { return nullptr; }
  // Everybody has finished. Called once, after the last step; an error before it: Abort.
  virtual Status Finish() = 0;
  // What the mode counted (trainer/session/run_counts.h), by name. Behind Finish.
  virtual void AddCounts(std::map<std::string, double>*) const {}
  // Behind each run of steps, of which `step` was the last: a line for people about what the mode
  // has decided since it was last asked; "" for nothing.
  virtual std::string News(int64_t) { return ""; }
  // The scope's device is about to go: what the mode has there goes first. Called once, last.
  virtual void ReleaseDeviceResources() {}
  // Tells the others that this trainer gives up, and why (CANCELLED: it was asked to). Blocks for
  // one call at most.
  virtual void Abort(const Status& why) = 0;
};

std::unique_ptr<ModeDriver> MakeLocalMode(const ModeOptions& options);
// Over `communicators`, of which there are options.comm_num; none: connected in Start, over NCCL
// where the scope is a device's.
std::unique_ptr<ModeDriver> MakeCollectiveMode(
    const ModeOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators);
// Collective mode with sections. INVALID_ARGUMENT when the ranks do not fit to them.
StatusOr<std::unique_ptr<ModeDriver>> MakePipelineMode(const ModeOptions& options);
std::unique_ptr<ModeDriver> MakePserverMode(const ModeOptions& options);
// Places that meet before each push (use_thread_barrier): `places` is the collective mode among
// them, `servers` the pserver mode of the first one; the others have none. `options`: of the place.
std::unique_ptr<ModeDriver> MakeMeetingMode(const ModeOptions& options,
                                            std::unique_ptr<ModeDriver> places,
                                            std::unique_ptr<ModeDriver> servers);
// Tables as in pserver mode, everything else as in collective mode.
StatusOr<std::unique_ptr<ModeDriver>> MakeHybridMode(const ModeOptions& options);
// The same with heter workers, each for equally many trainers.
StatusOr<std::unique_ptr<ModeDriver>> MakeHeterMode(const ModeOptions& options);

// ---- Shared by the modes that communicate ------------------------------------------------------

// DensifyAll; rank 0 says so in the log where that changes anything.
StatusOr<std::vector<ParamGrad>> DensifyGradients(Program& program,
                                                  const std::vector<ParamGrad>& grads,
                                                  const ModeOptions& options);

// What travels in one collective each: groups, or with fuse_all_reduce off each gradient alone.
std::vector<std::vector<ParamGrad>> GroupedGradients(const Program& program,
                                                     const std::vector<ParamGrad>& grads,
                                                     const ModeOptions& options);

// A peer that was there and is gone is worth a restart of the job: ABORTED (exit code 200), unlike
// a service that never answered (UNAVAILABLE). Any other status as it is.
Status AsLostPeer(const Status& status);

// This rank in the world of the job, which is met within start_timeout.
collective::WorldConfig WorldOf(const ModeOptions& options, const std::function<bool()>& stop);

// Whether any rank says `mine`. Within `patience`.
StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience);

// Whether tables on pservers and dense parameters on ranks stand before the same step, or the
// tables before the next. In sync mode the servers' version is the step that is next.
Status CheckTogether(PsSyncMode regime, int64_t of_tables, int64_t of_dense);

// UNIMPLEMENTED naming a table with table_rules: this mode keeps tables whole.
Status RefuseTableRules(const Program& program);

// ---- Shared by the modes that update parameters in the trainer itself ---------------------------

// Sets a state of one f32, where the program has it.
Status SetScalar(Scope& scope, const char* var, float value);
// The value of `tensor`, one f32 of the scope's device.
StatusOr<float> ReadScalar(const Scope& scope, const Tensor& tensor);
// The value of a plan's variable of one f32.
StatusOr<float> ReadScalar(const Scope& scope, const Plan& plan, std::string_view var);
inline Status SetLearningRate(Scope& scope, float learning_rate) {
  return SetScalar(scope, kLearningRateVar, learning_rate);
}
// The parameters of `program`: those on the CPU share the scope's memory, others are copied into
// memory of `host`.
StatusOr<TensorMap> ParamsOf(const Program& program, Scope& scope, Device& host);

// Copies a checkpoint's tensors into the scope; what it does not have is left out: slots that the
// mode keeps elsewhere. FAILED_PRECONDITION naming `dir` when a description differs.
Status PutInto(const TensorMap& tensors, const std::string& dir, Scope& scope);
// Copies, in memory of `host`, of every kState variable that is saved, but the learning rate.
StatusOr<TensorMap> ScopeState(const Program& program, const Scope& scope, Device& host);

}  // namespace tandem::trainer
