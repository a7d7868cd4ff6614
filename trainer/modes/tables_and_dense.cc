#include "trainer/modes/tables_and_dense.h"

#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {

TablesAndDense::TablesAndDense(Options options, TrainingMode tables, TrainingMode dense,
                               PushBeforeReduceComm* push_first)
    : options_(options),
      push_first_(push_first),
      tables_(std::move(tables)),
      dense_(std::move(dense)) {
  TD_REQUIRE(tables_.membership != nullptr && dense_.membership != nullptr);
}

StatusOr<int64_t> TablesAndDense::Join(const graph::Program& program, exec::Scope& scope,
                                       const TensorMap& state, int64_t step, const Stop& stop) {
  scope_ = &scope;
  TD_ASSIGN_OR_RETURN(const int64_t of_tables,
                      tables_.membership->Join(program, scope, state, step, stop));
  TD_ASSIGN_OR_RETURN(step, dense_.membership->Join(program, scope, state, step, stop));
  TD_RETURN_IF_ERROR(CheckTogether(of_tables, step));
  return step;
}

StatusOr<int64_t> TablesAndDense::Recover(const Status& why, const graph::Program& program,
                                          StepRollback& point, const Stop& stop) {
  TD_REQUIRE(scope_ != nullptr);
  TD_ASSIGN_OR_RETURN(const int64_t step, dense_.membership->Recover(why, program, point, stop));
  TD_ASSIGN_OR_RETURN(const int64_t of_tables,
                      tables_.membership->Join(program, *scope_, {}, 0, stop));
  TD_RETURN_IF_ERROR(CheckTogether(of_tables, step));
  if (push_first_ != nullptr) push_first_->Reset();
  return step;
}

// In sync mode, the version of the tables on the servers is the number of the next step.
Status TablesAndDense::CheckTogether(int64_t of_tables, int64_t of_dense) const {
  if (!options_.sync) return OkStatus();
  if (of_tables == of_dense || of_tables == of_dense + 1) return OkStatus();
  return FailedPrecondition(
      "pservers and trainers are at different steps: the tables are before step %d, the dense "
      "parameters before step %d [TD7012]; hint: restart pservers and trainers from the checkpoint "
      "of the job",
      DisplayStep(of_tables), DisplayStep(of_dense));
}

Status TablesAndDense::Finish() {
  TD_RETURN_IF_ERROR(tables_.membership->Finish());
  return dense_.membership->Finish();
}

void TablesAndDense::Abort(const Status& why) {
  dense_.membership->Abort(why);
  tables_.membership->Abort(why);
}

// Only rank 0 requests the state of the tables, because only rank 0 writes the state to a
// checkpoint.
StatusOr<TensorMap> TablesAndDense::State(const graph::Program& program, const exec::Scope& scope,
                                          Device& device) {
  TD_ASSIGN_OR_RETURN(TensorMap state, dense_.state->State(program, scope, device));
  if (!options_.leader) return state;
  TD_ASSIGN_OR_RETURN(TensorMap of_tables, tables_.state->State(program, scope, device));
  state.merge(of_tables);  // both maps contain the variables of the scope
  return state;
}

// If parameters are divided, the mode of the dense parameters does not return the tables. Params
// therefore adds this rank's copies of the tables.
StatusOr<TensorMap> TablesAndDense::Params(const graph::Program& program, exec::Scope& scope,
                                           Device& host) {
  TD_ASSIGN_OR_RETURN(TensorMap params, dense_.state->Params(program, scope, host));
  if (!params_are_spread()) return params;
  TD_ASSIGN_OR_RETURN(TensorMap own, ParamsOf(program, scope, host));
  params.merge(own);
  return params;
}

Status TablesAndDense::BeginStep(int64_t step, float learning_rate) {
  TD_RETURN_IF_ERROR(tables_.steps->BeginStep(step, learning_rate));
  return dense_.steps->BeginStep(step, learning_rate);
}

void TablesAndDense::AddCounts(ModeCounts* counts) const {
  tables_.steps->AddCounts(counts);
  dense_.steps->AddCounts(counts);
}

}  // namespace tandem::trainer
