// mode=pserver: trainers push gradients to the pservers, which run the optimizer, and pull
// parameters.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/time_slice.h"
#include "pserver/client/client.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/server_silence.h"
#include "trainer/modes/staged_comm.h"
#include "trainer/modes/stale_gradients.h"
#include "trainer/ps/geo_parameters.h"
#include "trainer/ps/ps_tables.h"
#include "trainer/ps/rpc_log.h"
#include "trainer/ps/server_waits.h"
#include "trainer/ps/table_file.h"

namespace tandem::trainer {
namespace {

class PserverMode final : public ModeDriver, public CommHandler {
 public:
  explicit PserverMode(const ModeOptions& options)
      : options_(options),
        evaluation_(PserverTimeout(options), [this](ps::PsRows rows, CommDone* done) {
          PullToEvaluate(std::move(rows), done);
        }) {}

  Status Distribute(Program& program, const std::vector<ParamGrad>& given) override;
  Status DistributeForward(Program& program) override;
  CommHandler* comm() override { return &staged_; }
  CommHandler* evaluation_comm() override { return &staged_evaluation_; }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    step_ = step;
    behind_ = static_cast<uint64_t>(step) + 1;
    learning_rate_ = learning_rate;
    if (sync() && options_.rank == 0 && options_.ranks > 1) waits_.BeginStep(step, *client_);
    return geo() ? SetLearningRate(*scope_, learning_rate) : OkStatus();
  }
  bool looks_ahead() const override { return sync() && !tensors_.empty() && !tables_.empty(); }
  void Foresee(const NextBatchHint& next) override { next_ = next; }
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  Status Gather() override {
    if (tables_.empty()) return OkStatus();
    return tables_.Gather(*client_, sync() ? behind_ : 0, *scope_);
  }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override;
  std::function<Status(const std::string& path)> table_writer() override;
  Status TakeTables(const std::string& path) override;
  Status Finish() override;
  void AddCounts(std::map<std::string, double>* counts) const override {
    (*counts)["ps.pushes"] = static_cast<double>(pushes_.load());
    (*counts)["ps.pulls"] = static_cast<double>(pulls_.load());
    calls_.AddBytes(counts);
    (*counts)["ps.slices"] = static_cast<double>(slices_);
    (*counts)["ps.largest_share"] = static_cast<double>(largest_share_);
    if (!client_) return;
    (*counts)["ps.lane_calls"] = static_cast<double>(client_->lane_calls());
    const ps::PsCacheCounts cache = client_->row_cache();
    (*counts)["ps.row_cache_hits"] = static_cast<double>(cache.hits);
    (*counts)["ps.row_cache_misses"] = static_cast<double>(cache.misses);
    tables_.AddCounts(counts);
  }
  std::string News(int64_t) override { return stale_.TakeWarning(); }
  const RpcLog* rpc_log() const override { return options_.rpc_profiler ? &calls_ : nullptr; }
  // A trainer that was asked to stop reports it. If a trainer fails, the servers notice that it is
  // unresponsive and name it to the others.
  void Abort(const Status& why) override {
    if (why.code() == StatusCode::kCancelled && client_) (void)client_->Complete();
  }

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return PserverTimeout(options_); }

 private:
  bool sync() const { return options_.regime == PsSyncMode::kSync; }
  bool geo() const { return options_.regime == PsSyncMode::kGeo; }
  ps::PsOptions ClientOptions();
  Status CountSlices(const std::vector<ps::PsVariable>& variables);
  StatusOr<std::vector<ps::PsSlot>> SlotsOf(const TensorMap& state) const;
  std::vector<ps::PsTensor> View(ValueSets& values) const;
  // Implements AsyncCommunicator::Exchange.
  StatusOr<uint64_t> Exchange(const GradientSet* push, ValueSets* pull);
  Status SendAndReceive();
  void GeoExchange(CommDone* done);
  void StartPullRows(CommDone* done);
  void PullToEvaluate(ps::PsRows rows, CommDone* done);
  void StartPushRows(CommDone* done);
  void StartPushPull(CommDone* done);
  uint64_t StepBound(uint64_t done) const;

  const ModeOptions options_;
  PrefetchHandler evaluation_;
  StagedComm staged_{*this}, staged_evaluation_{evaluation_};
  UpdateScope reach_ = UpdateScope::kElement;
  std::vector<std::string> params_;  // trained parameters except tables, in program order
  PsTables tables_;
  std::string table_file_;  // of the checkpoint to resume from
  // The nodes of the plan, by index. The pulls of all tables are sent with the last of them.
  enum class Node : uint8_t { kPullRows, kPushRows, kExchange };
  std::vector<Node> nodes_;
  std::vector<CommDone*> pulling_;
  NextBatchHint next_;           // set by Foresee
  std::vector<RowSet> pushing_;  // rows of this step's push_rows, sent with push_pull
  // The push_pull or geo_exchange node of the plan.
  std::vector<ps::PsConstTensor> gradients_;
  std::vector<ps::PsTensor> tensors_;
  Scope* scope_ = nullptr;
  int64_t step_ = 0;
  float learning_rate_ = 0;
  uint64_t behind_ = 0;                        // sync: the version after the last step
  GeoParameters geo_params_;                   // for geo
  int64_t geo_pending_ = 0;                    // steps since the last exchange
  std::atomic<int64_t> pushes_{0}, pulls_{0};  // messages; one to all servers counts once
  int64_t slices_ = 0, largest_share_ = 0;     // over all servers; elements on the largest server
  RpcLog calls_{options_.rpc_profiler};
  ServerWaits waits_;  // on rank 0, which reports them
  StaleGradients stale_{options_.optimizer};
  std::unique_ptr<ps::PsClient> client_;  // its destructor waits for calls into the members above
  std::unique_ptr<AsyncCommunicator> communicator_;  // its threads use all members above
};

Status PserverMode::Distribute(Program& program, const std::vector<ParamGrad>& given) {
  TD_ASSIGN_OR_RETURN(reach_, ReachOf(options_.optimizer));
  if (reach_ == UpdateScope::kAll && !geo()) {
    return Unimplemented(
        "optimizer.clip_global_norm is not supported in pserver mode, because each server has only "
        "its own gradients [TD1108]; hint: use clip_norm, or mode collective");
  }
  std::vector<ParamGrad> dense = given;
  if (!geo()) {
    TD_ASSIGN_OR_RETURN(tables_,
                        PsTables::Take(program, options_.optimizer, options_.rank == 0, dense));
  }
  for (const Var* var : program.VarsOf(VarKind::kParam)) {
    const bool trained = std::any_of(dense.begin(), dense.end(), [var](const ParamGrad& pair) {
      return pair.param == var->name;
    });
    if (trained) params_.push_back(var->name);
  }
  if (geo()) {
    TD_RETURN_IF_ERROR(AppendOptimizer(program, options_.optimizer, given));
    return AppendGeoExchange(program, params_);
  }
  TD_ASSIGN_OR_RETURN(std::vector<ParamGrad> grads, DensifyGradients(program, dense, options_));
  for (ParamGrad& pair : grads) {  // pservers store f32
    TD_ASSIGN_OR_RETURN(pair, WidenGradient(program, pair, OpRole::kBackward));
  }
  return AppendPushPull(program, grads);
}

// Evaluation reads the rows as of the last step (sync), or the current rows.
Status PserverMode::DistributeForward(Program& program) {
  if (geo()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const auto tables, DistributedTables(program));
  return PrefetchTables(program, tables);
}

void PserverMode::PullToEvaluate(ps::PsRows rows, CommDone* done) {
  const ps::PullCondition when{.version = sync() ? behind_ : 0, .exactly = sync()};
  std::vector<ps::PsRows> one;
  one.push_back(std::move(rows));
  client_->PullRows(when, std::move(one), [done](const StatusOr<uint64_t>& version) {
    done->Complete(version.status());
  });
}

StatusOr<int> PserverMode::Register(const CommNode& node) {
  const auto index = static_cast<int>(nodes_.size());
  if (node.op->type == "pull_rows" || node.op->type == "prefetch_rows") {
    nodes_.push_back(Node::kPullRows);
    TD_RETURN_IF_ERROR(tables_.RegisterPull(node));
    return index;
  }
  if (node.op->type == "push_rows") {
    nodes_.push_back(Node::kPushRows);
    TD_RETURN_IF_ERROR(tables_.RegisterPush(node));
    return index;
  }
  if (node.op->type != "push_pull" && node.op->type != "geo_exchange") {
    return Unimplemented("operator %s is not implemented in pserver mode [TD1109]", node.op->type);
  }
  nodes_.push_back(Node::kExchange);
  CHECK_EQ(node.in.size(), node.out.size());
  CHECK(tensors_.empty()) << "more than one exchange in a program";
  for (size_t i = 0; i < node.out.size(); ++i) {
    const CommTensor& param = node.out[i];
    if (param.desc.dtype != DType::kF32) {
      return Unimplemented(
          "parameter \"%s\" has element type %s, but pservers support only f32 [TD1207]", param.var,
          Name(param.desc.dtype));
    }
    const int64_t numel = param.desc.shape.numel();
    gradients_.push_back({param.var, static_cast<const float*>(node.in[i].data), numel});
    tensors_.push_back({param.var, static_cast<float*>(param.data), numel});
  }
  return index;
}

StatusOr<std::vector<ps::PsSlot>> PserverMode::SlotsOf(const TensorMap& state) const {
  std::vector<ps::PsSlot> slots;
  for (const std::string& param : params_) {
    TD_ASSIGN_OR_RETURN(const auto names, OptimizerSlots(options_.optimizer, param));
    for (const std::string& name : names) {
      const auto it = state.find(name);
      if (it == state.end()) continue;
      const auto values = it->second.span<float>();
      slots.push_back({param, name, {values.begin(), values.end()}});
    }
  }
  return slots;
}

ps::PsOptions PserverMode::ClientOptions() {
  ps::PsOptions ps;
  ps.job = options_.job;
  ps.trainer = options_.rank;
  ps.trainers = options_.ranks;
  ps.secret = options_.secret;
  ps.settings = options_.agreement;
  ps.tls = options_.tls;
  ps.insecure_allow_network = options_.insecure_allow_network;
  ps.start_timeout = options_.start_timeout;
  ps.step_timeout = options_.step_timeout;
  TellOfSilence(options_, ps);
  ps.wait_for_servers = options_.launch_barrier;
  ps.retries = options_.rpc_retries;
  ps.transport = options_.transport;
  ps.split_messages = options_.split_messages;
  ps.nonfinite = options_.nonfinite;
  ps.lost_after = options_.lost_after;
  ps.delay_compensation = options_.delay_compensation;
  ps.row_cache_bytes = static_cast<size_t>(options_.row_cache_bytes);
  ps.row_cache_versions = static_cast<uint64_t>(options_.row_cache_versions);
  // An update that uses the norm of its parameter needs the whole parameter on one server.
  const bool whole = reach_ != UpdateScope::kElement && !geo();
  LOG_IF(INFO, whole && options_.slice_var_up && options_.rank == 0)
      << "slice_var_up has no effect: the update by " << options_.optimizer.type
      << " needs norms of complete parameters";
  ps.partition.slice_var_up = options_.slice_var_up && !whole;
  ps.partition.min_block_size = options_.min_block_size;
  ps.partition.dispatcher = options_.dispatcher;
  ps.on_wait = [](const std::string& message) { LOG(INFO) << message; };
  ps.on_call = [this](const ps::PsCall& call) { calls_.Add(call); };
  return ps;
}

Status PserverMode::CountSlices(const std::vector<ps::PsVariable>& variables) {
  ps::PartitionOptions options = ClientOptions().partition;
  options.servers = static_cast<int>(options_.servers.size());
  TD_ASSIGN_OR_RETURN(const std::vector<ps::PsSlice> blocks, ps::Partition(variables, options));
  std::vector<int64_t> elements(options_.servers.size());
  for (const ps::PsSlice& block : blocks)
    elements[static_cast<size_t>(block.server)] += block.numel;
  slices_ = static_cast<int64_t>(blocks.size());
  largest_share_ = *std::max_element(elements.begin(), elements.end());
  return OkStatus();
}

StatusOr<int64_t> PserverMode::Start(const Program& program, Scope& scope, const TensorMap& state,
                                     int64_t step, const std::function<bool()>& stop) {
  scope_ = &scope;
  pulling_.clear();  // left by an aborted step
  pushing_.clear();
  tables_.DropAhead();
  // Tables that are on servers only have no rules in the program any more.
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  const ShortTimeSlice short_slice;  // for the threads that gRPC starts
  ps::PsOptions ps = ClientOptions();
  ps.stop = stop;
  TD_ASSIGN_OR_RETURN(client_, ps::PsClient::Connect(options_.servers, ps));
  std::vector<ps::PsVariable> variables;
  std::vector<ps::PsTensor> tensors;
  CpuDevice host;
  TD_ASSIGN_OR_RETURN(const TensorMap values, ParamsOf(program, scope, host));
  for (const std::string& name : params_) {
    const Tensor& tensor = values.at(name);
    variables.push_back({name, tensor.shape()});
    tensors.push_back({name, tensor.span<float>().data(), tensor.numel()});
  }
  TD_RETURN_IF_ERROR(CountSlices(variables));
  ps::PsOptimizer optimizer;  // geo: sgd, which adds the differences
  std::vector<ps::PsSlot> slots;
  if (!geo()) {
    TD_ASSIGN_OR_RETURN(optimizer, ToPsOptimizer(options_.optimizer));
    TD_ASSIGN_OR_RETURN(slots, SlotsOf(state));
    for (ps::PsSlot& slot : tables_.Scalars(state)) slots.push_back(std::move(slot));
  }
  TD_RETURN_IF_ERROR(client_
                         ->Configure(variables, sync() ? ps::PsMode::kSync : ps::PsMode::kASync,
                                     optimizer, tables_.Definitions(options_.seed))
                         .status());
  LOG_IF(INFO, options_.rank == 0)
      << client_->lanes() << " of " << options_.servers.size() << " pservers use shared memory";
  std::vector<ps::PsTableRows> rows;
  if (options_.rank == 0 && step > 0) {
    TD_ASSIGN_OR_RETURN(rows, tables_.Rows(scope, state, options_.seed));
  }
  const auto source = [&](const ps::RowSink& take) -> Status {
    for (const ps::PsTableRows& table : rows) TD_RETURN_IF_ERROR(take(table));
    if (table_file_.empty()) return OkStatus();
    return ReadTableFile(table_file_, [&take](const ps::PsTableRows& piece, const ps::PsTable&) {
      return take(piece);
    });
  };
  TD_ASSIGN_OR_RETURN(behind_,
                      client_->InitOrFetch(tensors, static_cast<uint64_t>(step), slots, source));
  TD_RETURN_IF_ERROR(PutInto(values, "of the pservers", scope));  // where tables are copies
  std::vector<int64_t> sizes;
  for (const ps::PsTensor& t : tensors_) sizes.push_back(t.numel);
  for (const ps::PsTensor& t : tensors_)
    std::ranges::copy(values.at(t.variable).span<float>(), t.data);
  if (geo()) geo_params_ = GeoParameters(tensors_, options_.ranks);
  if (options_.regime == PsSyncMode::kASync) {
    const auto exchange = [this](const auto* push, auto* pull) { return Exchange(push, pull); };
    communicator_ =
        std::make_unique<AsyncCommunicator>(options_.async, sizes, stale_.Watch(exchange, behind_));
  }
  // In the other regimes the version counts the pushes of all trainers, and the step is local to
  // the trainer.
  return sync() ? static_cast<int64_t>(behind_) : step;
}

std::vector<ps::PsTensor> PserverMode::View(ValueSets& values) const {
  std::vector<ps::PsTensor> view = tensors_;
  for (size_t i = 0; i < view.size(); ++i) view[i].data = values[i].data();
  return view;
}

StatusOr<uint64_t> PserverMode::Exchange(const GradientSet* push, ValueSets* pull) {
  StatusOr<uint64_t> result = uint64_t{0};
  CommDone done;
  const auto arrived = [&](StatusOr<uint64_t> version) {
    result = std::move(version);
    done.Complete(OkStatus());
  };
  const bool dense = push != nullptr && push->dense_steps > 0;
  auto gradients = dense ? gradients_ : std::vector<ps::PsConstTensor>();
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i].data = push->values[i].data();
  if (tensors_.empty()) pull = nullptr;  // tables only
  const std::vector<ps::PsConstRows> rows =
      push == nullptr ? std::vector<ps::PsConstRows>() : tables_.View(push->rows);
  pushes_ += push != nullptr ? 1 : 0;
  pulls_ += pull != nullptr ? 1 : 0;
  if (push == nullptr && pull == nullptr) return result;
  if (push == nullptr) {
    client_->Pull(0, View(*pull), arrived);
  } else if (pull == nullptr) {
    client_->Push(
        push->step, push->learning_rate, gradients,
        [&](const Status& status) { done.Complete(status); }, rows);
  } else {
    client_->PushPull(push->step, push->learning_rate, gradients, {}, View(*pull), arrived, rows);
  }
  TD_RETURN_IF_ERROR(done.Wait(Time::max()));  // the client's own deadlines end the wait
  return result;
}

Status PserverMode::SendAndReceive() {
  std::vector<const float*> gradients;
  std::vector<float*> params;
  for (const ps::PsConstTensor& g : gradients_) gradients.push_back(g.data);
  for (const ps::PsTensor& t : tensors_) params.push_back(t.data);
  TD_RETURN_IF_ERROR(communicator_->Send(static_cast<uint64_t>(step_), learning_rate_, gradients,
                                         std::exchange(pushing_, {})));
  (void)communicator_->Receive(params);
  return OkStatus();
}

void PserverMode::GeoExchange(CommDone* done) {
  geo_pending_ = 0;
  ++pushes_;
  ++pulls_;
  client_->PushPull(static_cast<uint64_t>(step_), -1.0f, geo_params_.Differences(), {},
                    geo_params_.Pulled(), [this, done](const StatusOr<uint64_t>& version) {
                      if (version.ok()) geo_params_.Take();
                      done->Complete(version.status());
                    });
}

void PserverMode::Start(int index, int64_t, CommDone* done) {
  switch (nodes_[static_cast<size_t>(index)]) {
    case Node::kPullRows:
      return StartPullRows(done);
    case Node::kPushRows:
      return StartPushRows(done);
    case Node::kExchange:
      return StartPushPull(done);
  }
}

// Number of steps that every trainer must have pushed when this trainer has pushed `done`.
uint64_t PserverMode::StepBound(uint64_t done) const {
  const int64_t bound = options_.regime == PsSyncMode::kHalfAsync ? options_.max_staleness : -1;
  if (bound < 0) return 0;
  return done - std::min(done, static_cast<uint64_t>(bound));
}

void PserverMode::StartPullRows(CommDone* done) {
  pulling_.push_back(done);
  if (pulling_.size() < tables_.size()) return;
  const auto complete = [all = std::exchange(pulling_, {})](const Status& status) {
    for (CommDone* one : all) one->Complete(status);
  };
  StatusOr<std::vector<ps::PsRows>> rows = tables_.Batch();
  if (!rows.ok()) return complete(rows.status());
  const auto step = static_cast<uint64_t>(step_);
  const ps::PullCondition when{
      .version = sync() ? step : 0, .step = StepBound(step), .exactly = sync()};
  if (!sync() || !tables_.GiveAhead(step, *rows, complete)) {
    client_->PullRows(when, *std::move(rows), [complete](const StatusOr<uint64_t>& version) {
      complete(version.status());
    });
  }
  tables_.Foresee(std::exchange(next_, {}));  // during the exchange
}

// The gradient is copied and sent with the dense ones, in one message per server and step.
void PserverMode::StartPushRows(CommDone* done) {
  StatusOr<RowSet> rows = tables_.CopyGradient(pushing_.size());
  if (!rows.ok()) return done->Complete(rows.status());
  pushing_.push_back(*std::move(rows));
  if (pushing_.size() == tables_.size() && tensors_.empty()) return StartPushPull(done);
  done->Complete(OkStatus());
}

void PserverMode::StartPushPull(CommDone* done) {
  const auto step = static_cast<uint64_t>(step_);
  if (options_.regime == PsSyncMode::kASync) return done->Complete(SendAndReceive());
  if (geo()) {
    if (++geo_pending_ < options_.geo_steps) return done->Complete(OkStatus());
    return GeoExchange(done);
  }
  const std::vector<RowSet> pushed = std::exchange(pushing_, {});
  const std::vector<ps::PsConstRows> rows = tables_.View(pushed);
  ++pushes_;
  if (tensors_.empty()) {
    return client_->Push(
        step, learning_rate_, {}, [done](const Status& status) { done->Complete(status); }, rows);
  }
  ++pulls_;
  const ps::PullCondition when{.version = sync() ? step + 1 : 0, .step = StepBound(step + 1)};
  client_->PushPull(
      step, learning_rate_, gradients_, when, tensors_,
      [done](const StatusOr<uint64_t>& version) { done->Complete(version.status()); }, rows);
  if (sync()) tables_.AskAhead(*client_, step + 1);
}

std::function<Status(const std::string& path)> PserverMode::table_writer() {
  if (tables_.Distributed().empty()) return nullptr;
  return [this](const std::string& path) {
    return tables_.Write(*client_, sync() ? behind_ : 0, path);
  };
}

Status PserverMode::TakeTables(const std::string& path) {
  table_file_ = path;
  const std::string table = tables_.Distributed();
  if (path.empty() == table.empty()) return OkStatus();
  if (path.empty()) {
    return FailedPrecondition(
        "the checkpoint has no rows of table \"%s\", which is_distributed [TD4021]; hint: resume "
        "without is_distributed, or start with another checkpoint.dir",
        table);
  }
  return ModeDriver::TakeTables(path);
}

Status PserverMode::Finish() {
  if (communicator_) TD_RETURN_IF_ERROR(communicator_->Finish());
  if (geo_pending_ > 0) {
    CommDone done;
    GeoExchange(&done);
    TD_RETURN_IF_ERROR(done.Wait(Time::max()));
  }
  TD_RETURN_IF_ERROR(Gather());
  if (options_.rank == 0) tables_.Count(*client_);
  return client_->Complete();
}

StatusOr<TensorMap> PserverMode::State(const Program& program, const Scope& scope, Device& device) {
  TD_RETURN_IF_ERROR(Gather());
  TD_ASSIGN_OR_RETURN(TensorMap state, ScopeState(program, scope, device));
  TD_RETURN_IF_ERROR(tables_.AddState(*client_, device, state));
  TD_ASSIGN_OR_RETURN(const std::vector<ps::PsSlot> slots, client_->PullState());
  for (const ps::PsSlot& slot : slots) {
    const Shape whole = program.FindVar(slot.variable)->desc.shape;
    const auto n = static_cast<int64_t>(slot.values.size());
    const Shape shape = n == whole.numel() ? whole : Shape{n};
    TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({DType::kF32, shape}, device));
    std::memcpy(tensor.data(), slot.values.data(), tensor.bytes());
    state[slot.slot] = std::move(tensor);
  }
  return state;
}

}  // namespace

std::unique_ptr<ModeDriver> MakePserverMode(const ModeOptions& options) {
  return std::make_unique<PserverMode>(options);
}

}  // namespace tandem::trainer
