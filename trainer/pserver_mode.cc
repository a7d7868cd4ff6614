// mode=pserver: gradients go to the pservers, which run the optimizer; parameters come back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/time_slice.h"
#include "pserver/client/client.h"
#include "trainer/mode.h"

namespace tandem {
namespace {

// The optimizer as the client speaks of it.
StatusOr<PsOptimizer> ToPsOptimizer(const OptimizerSpec& spec) {
  PsOptimizer optimizer;
  optimizer.type = spec.type;
  for (const auto& [name, value] : spec.attrs) {
    if (const auto* b = std::get_if<bool>(&value)) {
      optimizer.attrs[name] = *b;
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      optimizer.attrs[name] = *i;
    } else if (const auto* f = std::get_if<double>(&value)) {
      optimizer.attrs[name] = *f;
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      optimizer.attrs[name] = *s;
    } else {
      return InvalidArgument("optimizer %s: attribute \"%s\" is no single value", spec.type, name);
    }
  }
  return optimizer;
}

class PserverMode final : public ModeDriver, public CommHandler {
 public:
  explicit PserverMode(const ModeOptions& options) : options_(options) {}

  Status Distribute(Program& program, const std::vector<ParamGrad>& given) override;
  CommHandler* comm() override { return this; }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    step_ = step;
    learning_rate_ = learning_rate;
    return OkStatus();
  }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override;
  Status Finish() override { return client_->Complete(); }
  // A trainer that was asked to stop says so; of one that fails the servers notice the silence and
  // name it to the others.
  void Abort(const Status& why) override {
    if (why.code() == StatusCode::kCancelled && client_) (void)client_->Complete();
  }

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return 2 * options_.step_timeout; }

 private:
  // One push_pull of the plan.
  struct Transfer {
    std::vector<PsConstTensor> gradients;
    std::vector<PsTensor> params;
  };

  StatusOr<std::vector<PsSlot>> SlotsOf(const TensorMap& state) const;

  const ModeOptions options_;
  UpdateReach reach_ = UpdateReach::kElement;
  std::vector<std::string> params_;  // trained ones, in the order of the program
  std::vector<Transfer> transfers_;
  int64_t step_ = 0;
  float learning_rate_ = 0;
  std::unique_ptr<PsClient> client_;  // last: its destructor waits for calls into the above
};

Status PserverMode::Distribute(Program& program, const std::vector<ParamGrad>& given) {
  TD_ASSIGN_OR_RETURN(reach_, ReachOf(options_.optimizer));
  if (reach_ == UpdateReach::kAll) {
    return Unimplemented(
        "optimizer.clip_global_norm needs all gradients in one place; in pserver mode they lie "
        "apart: use clip_norm, or mode collective");
  }
  TD_ASSIGN_OR_RETURN(const std::vector<ParamGrad> grads, SendWhole(program, given, options_));
  for (const Var* var : program.VarsOf(VarKind::kParam)) {
    const bool trained = std::any_of(grads.begin(), grads.end(), [var](const ParamGrad& pair) {
      return pair.param == var->name;
    });
    if (trained) params_.push_back(var->name);
  }
  return AppendPushPull(program, grads);
}

StatusOr<int> PserverMode::Register(const CommNode& node) {
  if (node.op->type != "push_pull") {
    return Unimplemented("%s is not built yet in pserver mode", node.op->type);
  }
  if (node.place.kind != PlaceKind::kCpu) {
    return Unimplemented("pserver mode on %s is not built yet", ToString(node.place));
  }
  CHECK_EQ(node.in.size(), node.out.size());
  Transfer transfer;
  for (size_t i = 0; i < node.out.size(); ++i) {
    const CommTensor& param = node.out[i];
    if (param.desc.dtype != DType::kF32) {
      return Unimplemented("\"%s\" is %s; pservers keep f32", param.var, Name(param.desc.dtype));
    }
    const int64_t numel = param.desc.shape.numel();
    transfer.gradients.push_back({param.var, static_cast<const float*>(node.in[i].data), numel});
    transfer.params.push_back({param.var, static_cast<float*>(param.data), numel});
  }
  transfers_.push_back(std::move(transfer));
  return static_cast<int>(transfers_.size()) - 1;
}

StatusOr<std::vector<PsSlot>> PserverMode::SlotsOf(const TensorMap& state) const {
  std::vector<PsSlot> slots;
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

StatusOr<int64_t> PserverMode::Start(const Program& program, Scope& scope, const TensorMap& state,
                                     int64_t step) {
  const ShortTimeSlice short_slice;  // for the threads that gRPC starts
  PsOptions ps;
  ps.job = options_.job;
  ps.trainer = options_.rank;
  ps.trainers = options_.ranks;
  ps.secret = options_.secret;
  ps.tls = options_.tls;
  ps.start_timeout = options_.start_timeout;
  ps.step_timeout = options_.step_timeout;
  // An update that needs the norm of its parameter needs it whole, on one server.
  LOG_IF(INFO, reach_ != UpdateReach::kElement && options_.slice_var_up && options_.rank == 0)
      << "slice_var_up has no effect: the update by " << options_.optimizer.type
      << " needs norms of whole parameters";
  ps.partition.slice_var_up = options_.slice_var_up && reach_ == UpdateReach::kElement;
  ps.partition.min_block_size = options_.min_block_size;
  ps.on_wait = [](const std::string& message) { LOG(INFO) << message; };
  TD_ASSIGN_OR_RETURN(client_, PsClient::Connect(options_.servers, ps));

  std::vector<PsVariable> variables;
  std::vector<PsTensor> tensors;
  for (const std::string& name : params_) {
    const Tensor* tensor = scope.Find(name);
    variables.push_back({name, program.FindVar(name)->desc.shape});
    tensors.push_back({name, static_cast<float*>(tensor->data()), tensor->numel()});
  }
  TD_ASSIGN_OR_RETURN(const PsOptimizer optimizer, ToPsOptimizer(options_.optimizer));
  const PsMode mode = options_.a_sync ? PsMode::kASync : PsMode::kSync;
  TD_RETURN_IF_ERROR(client_->Configure(variables, mode, optimizer).status());
  TD_ASSIGN_OR_RETURN(const auto slots, SlotsOf(state));
  TD_ASSIGN_OR_RETURN(const uint64_t version,
                      client_->InitOrFetch(tensors, static_cast<uint64_t>(step), slots));
  // In a_sync mode the version counts pushes of all trainers; the step is the trainer's own.
  return options_.a_sync ? step : static_cast<int64_t>(version);
}

void PserverMode::Start(int index, int64_t, CommDone* done) {
  const Transfer& transfer = transfers_[static_cast<size_t>(index)];
  const auto step = static_cast<uint64_t>(step_);
  client_->PushPull(
      step, learning_rate_, transfer.gradients, options_.a_sync ? 0 : step + 1, transfer.params,
      [done](const StatusOr<uint64_t>& version) { done->Complete(version.status()); });
}

// Optimizer slots from the servers, running statistics of this trainer.
StatusOr<TensorMap> PserverMode::State(const Program& program, const Scope& scope, Device& device) {
  TD_ASSIGN_OR_RETURN(TensorMap state, ScopeState(program, scope, device));
  TD_ASSIGN_OR_RETURN(const std::vector<PsSlot> slots, client_->PullState());
  for (const PsSlot& slot : slots) {
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

}  // namespace tandem
