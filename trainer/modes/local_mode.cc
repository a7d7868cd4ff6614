// mode=local: one process. Its program contains the optimizer.
#include <algorithm>

#include "collective/rendezvous/rendezvous.h"
#include "common/base/check.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {
namespace {

class LocalMode final : public ModeDriver {
 public:
  explicit LocalMode(const ModeOptions& options) : options_(options) {}

  Status Distribute(Program& program, const std::vector<ParamGrad>& grads) override {
    return AppendOptimizer(program, options_.optimizer, grads);
  }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap&, int64_t step,
                          const std::function<bool()>&) override {
    TD_RETURN_IF_ERROR(RefuseTableRules(program));
    scope_ = &scope;
    return step;
  }
  Status BeginStep(int64_t, float learning_rate) override {
    return SetLearningRate(*scope_, learning_rate);
  }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override {
    return ScopeState(program, scope, device);
  }
  Status Finish() override { return OkStatus(); }
  void Abort(const Status&) override {}

 private:
  const ModeOptions options_;
  Scope* scope_ = nullptr;
};

}  // namespace

std::unique_ptr<ModeDriver> MakeLocalMode(const ModeOptions& options) {
  return std::make_unique<LocalMode>(options);
}

StatusOr<std::vector<ParamGrad>> DensifyGradients(Program& program,
                                                  const std::vector<ParamGrad>& grads,
                                                  const ModeOptions& options) {
  const auto sparse = std::count_if(grads.begin(), grads.end(),
                                    [](const ParamGrad& pair) { return !pair.rows.empty(); });
  LOG_IF(INFO, sparse > 0 && options.rank == 0)
      << sparse
      << " sparse gradients are sent as dense gradients, because this mode sends only dense ones, "
         "with the "
      << "same result";
  return DensifyAll(program, grads);
}

std::vector<std::vector<ParamGrad>> GroupedGradients(const Program& program,
                                                     const std::vector<ParamGrad>& grads,
                                                     const ModeOptions& options) {
  if (options.fuse_all_reduce) return GroupGradients(program, grads, options.group_rule);
  std::vector<std::vector<ParamGrad>> groups;
  for (const ParamGrad& pair : grads) groups.push_back({pair});
  return groups;
}

Status AsLostPeer(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  return Aborted("%s", std::string(status.message()));
}

collective::WorldConfig WorldOf(const ModeOptions& options, const std::function<bool()>& stop) {
  collective::WorldConfig world;
  world.job = options.job;
  world.rank = options.rank;
  world.size = options.ranks;
  world.secret = options.secret;
  world.rendezvous = options.rendezvous;
  world.listen_host = options.listen_host;
  world.network_allowed = options.network_allowed;
  world.timeout = options.start_timeout;
  world.stop = stop;
  return world;
}

StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience) {
  int32_t any = mine ? 1 : 0;
  TD_RETURN_IF_ERROR(AsLostPeer(
      communicator
          .AllReduce(&any, &any, 1, DType::kI32, ReduceOp::kMax, {.what = "whether to stop"})
          ->Wait(SteadyNow() + patience)));
  return any != 0;
}

Status RefuseTableRules(const Program& program) {
  for (const Op& op : program.ops) {
    const auto rules = op.attrs.find("table_rules");
    if (op.type != "lookup_table" || rules == op.attrs.end()) continue;
    return Unimplemented(
        "table \"%s\" has table_rules (%s), which are supported only in mode pserver without geo "
        "[TD1107]",
        op.inputs[1].front(), std::get<std::string>(rules->second));
  }
  return OkStatus();
}

Status SetScalar(Scope& scope, const char* var, float value) {
  const Tensor* tensor = scope.Find(var);
  if (tensor == nullptr) return OkStatus();
  return scope.device().CopyFromHost(tensor->data(), &value, sizeof(value));
}

StatusOr<float> ReadScalar(const Scope& scope, const Tensor& tensor) {
  float value = 0;
  TD_RETURN_IF_ERROR(scope.device().CopyToHost(&value, tensor.data(), sizeof(value)));
  return value;
}

StatusOr<float> ReadScalar(const Scope& scope, const Plan& plan, std::string_view var) {
  TD_ASSIGN_OR_RETURN(const Tensor tensor, plan.Get(var));
  return ReadScalar(scope, tensor);
}

Status PutInto(const TensorMap& tensors, const std::string& dir, Scope& scope) {
  for (const auto& [name, tensor] : tensors) {
    const Tensor* target = scope.Find(name);
    if (target == nullptr || target->data() == tensor.data()) continue;
    if (target->desc() != tensor.desc()) {
      return FailedPrecondition("checkpoint %s: \"%s\" is %s, but the program needs %s [TD2105]",
                                dir, name, ToString(tensor.desc()), ToString(target->desc()));
    }
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(target->data(), tensor.data(), tensor.bytes()));
  }
  return OkStatus();
}

StatusOr<TensorMap> ParamsOf(const Program& program, Scope& scope, Device& host) {
  TensorMap params;
  for (const Var* var : program.VarsOf(VarKind::kParam)) {
    const Tensor* tensor = scope.Find(var->name);
    if (scope.device().place().kind == PlaceKind::kCpu) {
      params[var->name] = *tensor;
      continue;
    }
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor->desc(), host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    params[var->name] = std::move(copy);
  }
  return params;
}

StatusOr<TensorMap> ModeDriver::Params(const Program& program, Scope& scope, Device& host) {
  return ParamsOf(program, scope, host);
}

StatusOr<TensorMap> ScopeState(const Program& program, const Scope& scope, Device& host) {
  TensorMap state;
  for (const Var* var : program.VarsOf(VarKind::kState)) {
    const Tensor* tensor = scope.Find(var->name);
    if (!var->saved || var->name == kLearningRateVar || tensor == nullptr) continue;
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor->desc(), host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    state[var->name] = std::move(copy);
  }
  return state;
}

}  // namespace tandem::trainer
