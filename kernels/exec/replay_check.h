// Computes the forward and backward pass of a step twice and compares the results
// (JobConfig.verify_replay), so that a wrong result of a faulty processor or memory changes no
// parameter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"
#include "kernels/exec/scope.h"

namespace tandem::exec {

// Observes the runs of a plan on a CPU. At the begin of an observed iteration it runs a second
// plan, the replay, and keeps a checksum of each result. It then compares each result of the
// observed plan as soon as it is computed, and once more before a communication or an update reads
// the result.
//
// The replay has the operators whose inputs are data, parameters, and results of such operators. It
// lacks communications (except pulls of rows at the begin of a step), operators that depend on what
// these receive, and operators that change parameters. It reads the parameters of the observed
// plan, has its own memory for all results, and works on copies of running statistics.
//
// An error of a parameter before the step, or of data, stays unseen, because both plans read it.
class ReplayCheck final : public ExecObserver {
 public:
  // Makes the replay of `plan`, which `options` have made with `scope`. All arguments except
  // `options` must outlive this object. FAILED_PRECONDITION: no operator can be computed again.
  // REQUIRES: the plan is for a CPU and runs its operators in program order.
  static StatusOr<std::unique_ptr<ReplayCheck>> Make(Plan& plan, const Backend& backend,
                                                     const Scope& scope,
                                                     const PlanOptions& options);
  ~ReplayCheck() override;

  size_t compared() const { return ops_.size(); }  // number of operators that are compared
  // Copies the running statistics. The caller must call Begin before each observed iteration, after
  // it has set the data and the variables of the scope.
  void Begin();

  Status BeforeStep(const PlanStep& step, int64_t run) override;
  // INTERNAL, as for BeforeStep: a result differs. The message names the variable.
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;

 private:
  using Sums = std::vector<uint32_t>;  // checksums of the results of an operator
  struct Result {
    size_t position;  // in the arguments of the operator
    std::string var;
    TensorDesc desc;
    const void* data = nullptr;  // its memory in the observed plan, after the operator has run
  };
  // A result of a compared operator: indices in compared_ and in Compared::results.
  struct ResultAt {
    size_t op, result;
  };
  // The results that a variable may have, in program order. The last one of which the operator has
  // run is valid: operators with a condition may be skipped.
  using Results = std::vector<ResultAt>;
  // A variable that the replay takes from the observed plan.
  struct Given {
    Tensor copy;                         // memory of the replay
    const void* data = nullptr;          // memory of the observed plan
    std::vector<const void**> from, to;  // arguments of both plans that point to the variable
  };
  // An operator that is compared. Sums are empty if the operator has not run in this iteration.
  struct Compared {
    std::vector<Result> results;
    Sums here, replayed;
  };
  class Recorder;

  ReplayCheck(Plan& plan, const Scope& scope);
  // Sets `begin_`, and sets `pulls_` to the operators that pull rows before this step.
  void FindBegin();
  // Finds which operators are compared, and returns the program of the replay.
  graph::Program Choose();
  Status ShareVariables(const graph::Program& program);
  Status Replay();
  static Sums SumsOf(const std::vector<Result>& results, const PlanStep& step);
  static Status Compare(const Compared& at);
  // Checks that results have not changed since they were compared.
  Status CheckUnchanged(const std::vector<Results>& results) const;
  // Finds the variables that the replay takes from the observed plan.
  Status FindGiven();

  Plan& plan_;
  const Scope& scope_;
  size_t begin_ = 0;                          // index of the step before which the replay runs
  std::set<int> pulls_;                       // operators that pull rows before `begin_`
  std::vector<Given> data_;                   // the data
  std::map<int, std::vector<Given>> pulled_;  // by operator of pulls_: temporaries with rows
  std::vector<int> ops_;  // the compared operators, ascending, as indices in the observed program
  std::vector<Compared> compared_;  // by index in ops_
  std::vector<int> number_of_;      // by operator: its index in ops_; -1: it is not compared
  // By operator that is not compared: results to check before it.
  std::vector<std::vector<Results>> reads_;
  std::vector<bool> updates_;            // by operator: whether it changes a parameter
  std::vector<Results> before_updates_;  // results to check before the first update that runs
  std::set<std::string> copied_;         // persistent variables of which the replay has copies
  std::unique_ptr<Scope> replay_scope_;  // the other variables share the memory of scope_
  std::unique_ptr<Plan> replay_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Recorder> recorder_;
  bool pending_ = false;  // the replay of the present iteration has not run yet
  bool updated_ = false;  // an update of the present iteration has begun
};

}  // namespace tandem::exec
