#include "trainer/modes/local_mode.h"

#include "common/base/require.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/modes/table_checks.h"

namespace tandem::trainer {
namespace {

class LocalMode final : public ProgramShaper,
                        public Membership,
                        public StateKeeper,
                        public StepHooks {
 public:
  explicit LocalMode(const CommonOptions& options) : options_(options) {}

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) override {
    return graph::AppendOptimizer(program, options_.optimizer, grads);
  }
  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap&,
                         int64_t step, const Stop&) override {
    TD_RETURN_IF_ERROR(RefuseTableRules(program));
    scope_ = &scope;
    return step;
  }
  Status Finish() override { return OkStatus(); }
  void Abort(const Status&) override {}
  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& device) override {
    return ScopeState(program, scope, device);
  }
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override {
    return ParamsOf(program, scope, host);
  }
  Status BeginStep(int64_t, float learning_rate) override {
    TD_REQUIRE(scope_ != nullptr);
    return SetLearningRate(*scope_, learning_rate);
  }

 private:
  const CommonOptions options_;
  exec::Scope* scope_ = nullptr;  // scope of the training program; set by Join
};

}  // namespace

TrainingMode MakeLocalMode(const CommonOptions& options) {
  const auto mode = std::make_shared<LocalMode>(options);
  return {.owner = mode,
          .programs = mode.get(),
          .membership = mode.get(),
          .state = mode.get(),
          .steps = mode.get(),
          .evaluation_part = WholeOnRank0(options.rank)};
}

}  // namespace tandem::trainer
