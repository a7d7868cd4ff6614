#include "kernels/exec/replay_check.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/require.h"
#include "kernels/exec/commit.h"

namespace tandem::exec {
namespace {

using graph::VarKind;

// Returns the memory of a temporary in a plan; null: no operator reads the variable.
const void* AddressIn(const Plan& plan, const std::string& var) {
  for (const PlanStep& step : plan.steps()) {
    if (step.run == nullptr) continue;
    size_t position = 0;
    for (const auto& slot : plan.program().ops[static_cast<size_t>(step.op)].inputs) {
      for (const std::string& name : slot) {
        if (name == var) return step.args.in[position];
        ++position;
      }
      if (slot.empty()) ++position;
    }
  }
  return nullptr;
}

bool IsPersistent(VarKind kind) { return kind == VarKind::kParam || kind == VarKind::kState; }

}  // namespace

// Keeps the checksums of the replay.
class ReplayCheck::Recorder final : public ExecObserver {
 public:
  explicit Recorder(std::vector<Compared>& compared) : compared_(compared) {}
  Status OnStep(const PlanStep& step, int64_t, Time, Time) override {
    Compared& at = compared_[static_cast<size_t>(step.op)];
    at.replayed = SumsOf(at.results, step);
    return OkStatus();
  }

 private:
  std::vector<Compared>& compared_;
};

ReplayCheck::ReplayCheck(Plan& plan, const Scope& scope) : plan_(plan), scope_(scope) {}

ReplayCheck::~ReplayCheck() = default;

void ReplayCheck::FindBegin() {
  const std::span<const PlanStep> steps = plan_.steps();
  const auto& ops = plan_.program().ops;
  std::set<int> started;  // communications that pull rows
  for (size_t s = 0; s < steps.size(); ++s) {
    const PlanStep& step = steps[s];
    const bool pull = PullsRows(ops[static_cast<size_t>(step.op)]);
    if (step.comm_start >= 0 && !pull) break;
    if (step.comm_start >= 0) started.insert(step.comm_start);
    if (!started.contains(step.comm_wait)) continue;
    begin_ = s + 1;
    pulls_.insert(step.op);
  }
}

graph::Program ReplayCheck::Choose() {
  const graph::Program& program = plan_.program();
  const std::set<std::string> copies = CopiedTables(program);
  std::set<std::string> unknown;  // variables that the replay does not compute
  graph::Program replay = program;
  replay.ops.clear();
  number_of_.assign(program.ops.size(), -1);
  reads_.resize(program.ops.size());
  std::map<std::string, Results> results;  // results of compared operators, by variable
  int first_update = -1;                   // the first operator that changes a parameter
  for (int i = 0; i < static_cast<int>(program.ops.size()); ++i) {
    const ops::Op& op = program.ops[static_cast<size_t>(i)];
    const ops::OpDef* const def = ops::FindOp(op.type);
    TD_REQUIRE(def != nullptr);
    bool updates = false;
    graph::ForEachWrite(op, [&](const std::string& name) {
      updates |= program.FindVar(name)->kind == VarKind::kParam && !copies.contains(name);
    });
    updates_.push_back(updates);
    if (updates && first_update < 0) first_update = i;
    bool again = !def->is_comm && !updates;
    graph::ForEachRead(op, [&](const std::string& name) { again &= !unknown.contains(name); });
    if (!again) {
      // All results that updates read are checked before the first update. A wrong result thus
      // changes no parameter.
      graph::ForEachMemoryRead(op, [&](const std::string& name) {
        const auto found = results.find(name);
        if (found == results.end()) return;
        const bool early = updates && ops_[found->second.back().op] < first_update;
        (early ? before_updates_ : reads_[static_cast<size_t>(i)]).push_back(found->second);
      });
    }
    // A skipped operator leaves the value that was there before.
    const bool whole = op.run_if.empty();
    const bool known = again || pulls_.contains(i);
    graph::ForEachWrite(op, [&](const std::string& name) {
      if (whole || !again) results.erase(name);
      if (!known) {
        unknown.insert(name);
      } else if (whole) {
        unknown.erase(name);
      }
      const VarKind kind = program.FindVar(name)->kind;
      if (again && IsPersistent(kind)) copied_.insert(name);
      if (pulls_.contains(i) && kind == VarKind::kTemp) {
        replay.FindVar(name)->kind = VarKind::kData;
      }
    });
    if (!again) continue;
    number_of_[static_cast<size_t>(i)] = static_cast<int>(ops_.size());
    ops_.push_back(i);
    replay.ops.push_back(op);
    Compared at;
    size_t position = 0;
    for (const auto& slot : op.outputs) {
      for (const std::string& var : slot) {
        const size_t here = position++;
        if (var.empty()) continue;
        results[var].push_back({compared_.size(), at.results.size()});
        at.results.push_back({here, var, program.FindVar(var)->desc});
      }
      if (slot.empty()) ++position;
    }
    compared_.push_back(std::move(at));
  }
  return replay;
}

Status ReplayCheck::ShareVariables(const graph::Program& program) {
  for (const graph::Var& var : program.vars()) {
    if (!IsPersistent(var.kind)) continue;
    const Tensor* const tensor = scope_.Find(var.name);
    TD_REQUIRE(tensor != nullptr);
    if (copied_.contains(var.name)) {
      TD_RETURN_IF_ERROR(replay_scope_->Declare(var.name, var.desc).status());
    } else {
      replay_scope_->Share(var.name, *tensor);
    }
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<ReplayCheck>> ReplayCheck::Make(Plan& plan, const Backend& backend,
                                                         const Scope& scope,
                                                         const PlanOptions& options) {
  if (plan.device() != nullptr || plan.num_threads() != 1) {
    return FailedPrecondition(
        "verify_replay needs a plan that runs its operators one after another on a CPU [TD1221]; "
        "hint: set num_threads: 1 and place: \"cpu\"");
  }
  std::unique_ptr<ReplayCheck> check(new ReplayCheck(plan, scope));
  check->FindBegin();
  const graph::Program program = check->Choose();
  if (program.ops.empty()) {
    return FailedPrecondition(
        "verify_replay: no operator of this rank can be computed again, because all depend on "
        "values that the rank receives in the step [TD1221]; hint: remove verify_replay");
  }
  check->replay_scope_ = std::make_unique<Scope>(scope.device());
  TD_RETURN_IF_ERROR(check->ShareVariables(program));
  PlanOptions own = options;
  own.fetch.clear();
  own.drop = {};
  own.commit = own.graphs = false;
  TD_ASSIGN_OR_RETURN(check->replay_,
                      Plan::Make(program, backend, *check->replay_scope_, nullptr, own));
  check->executor_ = std::make_unique<Executor>(*check->replay_);
  check->recorder_ = std::make_unique<Recorder>(check->compared_);
  check->executor_->SetObserver(check->recorder_.get());
  TD_RETURN_IF_ERROR(check->FindGiven());
  return check;
}

Status ReplayCheck::FindGiven() {
  for (const graph::Var* const var : plan_.program().VarsOf(VarKind::kData)) {
    Given given;
    TD_ASSIGN_OR_RETURN(given.copy, replay_->Get(var->name));
    TD_ASSIGN_OR_RETURN(const Tensor here, plan_.Get(var->name));
    given.data = here.data();
    given.from = plan_.Readers(var->name);
    given.to = replay_->Readers(var->name);
    data_.push_back(std::move(given));
  }
  for (const int pull : pulls_) {
    graph::ForEachWrite(
        plan_.program().ops[static_cast<size_t>(pull)], [&](const std::string& name) {
          const StatusOr<Tensor> copy = replay_->Get(name);
          if (plan_.program().FindVar(name)->kind != VarKind::kTemp || !copy.ok()) return;
          if (const void* const data = AddressIn(plan_, name); data != nullptr) {
            pulled_[pull].push_back({.copy = *copy, .data = data, .from = {}, .to = {}});
          }
        });
  }
  return OkStatus();
}

void ReplayCheck::Begin() {
  pending_ = true;
  updated_ = false;
  for (Compared& at : compared_) {
    at.here.clear();
    at.replayed.clear();
  }
  for (const std::string& name : copied_) {
    const Tensor* const from = scope_.Find(name);
    const Tensor* const to = replay_scope_->Find(name);
    TD_REQUIRE(from != nullptr && to != nullptr);
    std::memcpy(to->data(), from->data(), from->bytes());
  }
}

Status ReplayCheck::Replay() {
  pending_ = false;
  for (const Given& given : data_) {
    const void* const data = given.from.empty() ? given.data : *given.from.front();
    for (const void** const reader : given.to) *reader = data;
    if (given.to.empty()) std::memcpy(given.copy.data(), data, given.copy.bytes());
  }
  // After an error, for example of bad data, the observed plan fails at the same operator and names
  // it. If it does not fail, the operator has no replayed result, which Compare reports.
  const Status failed = executor_->Run();
  static_cast<void>(failed);
  for (size_t i = 0; i < compared_.size(); ++i) {
    if (compared_[i].here.empty()) continue;
    const Status status = Compare(compared_[i]);
    if (!status.ok()) return AtOp(plan_.program(), ops_[i], status);
  }
  return OkStatus();
}

ReplayCheck::Sums ReplayCheck::SumsOf(const std::vector<Result>& results, const PlanStep& step) {
  Sums sums;
  sums.reserve(results.size());
  for (const Result& result : results) {
    const void* const data = step.args.out[result.position];
    sums.push_back(data == nullptr ? 0 : Crc32c(0, data, result.desc.bytes()));
  }
  return sums;
}

Status ReplayCheck::Compare(const Compared& at) {
  if (at.here == at.replayed) return OkStatus();
  TD_REQUIRE(!at.results.empty());
  size_t i = 0;
  while (i + 1 < at.results.size() && i < at.here.size() && i < at.replayed.size() &&
         at.here[i] == at.replayed[i]) {
    ++i;
  }
  return Internal(
      "verify_replay: the result %s of %s had other bits when it was computed again; the rank has "
      "not sent it and not used it for a parameter [TD1220]; hint: the processor or the memory of "
      "this host may be faulty: test them, and continue the job on another host",
      at.results[i].var, ToString(at.results[i].desc));
}

Status ReplayCheck::CheckUnchanged(const std::vector<Results>& results) const {
  for (const Results& of : results) {
    const auto ran = std::find_if(of.rbegin(), of.rend(), [this](const ResultAt& at) {
      return !compared_[at.op].here.empty();
    });
    if (ran == of.rend()) continue;
    const Result& result = compared_[ran->op].results[ran->result];
    if (result.data == nullptr) continue;
    const uint32_t sum = Crc32c(0, result.data, result.desc.bytes());
    if (sum == compared_[ran->op].here[ran->result]) continue;
    return Internal(
        "verify_replay: the memory of the result %s of %s changed after it was computed; the rank "
        "has not sent it and not used it for a parameter [TD1220]; hint: the memory of this host "
        "may be faulty: test it, and continue the job on another host",
        result.var, ToString(result.desc));
  }
  return OkStatus();
}

Status ReplayCheck::BeforeStep(const PlanStep& step, int64_t) {
  const auto index = static_cast<size_t>(&step - plan_.steps().data());
  if (pending_ && index >= begin_) TD_RETURN_IF_ERROR(Replay());
  if (step.comm_wait >= 0) return OkStatus();
  const auto op = static_cast<size_t>(step.op);
  Status status;
  if (updates_[op] && !std::exchange(updated_, true)) status = CheckUnchanged(before_updates_);
  status.Update(CheckUnchanged(reads_[op]));
  return status.ok() ? status : AtOp(plan_.program(), step.op, status);
}

Status ReplayCheck::OnStep(const PlanStep& step, int64_t, Time, Time) {
  if (const auto pulled = pulled_.find(step.op); pulled != pulled_.end() && step.comm_wait >= 0) {
    for (const Given& given : pulled->second) {
      std::memcpy(given.copy.data(), given.data, given.copy.bytes());
    }
  }
  const int number = number_of_[static_cast<size_t>(step.op)];
  if (number < 0) return OkStatus();
  Compared& at = compared_[static_cast<size_t>(number)];
  at.here = SumsOf(at.results, step);
  for (Result& result : at.results) result.data = step.args.out[result.position];
  return pending_ ? OkStatus() : Compare(at);
}

}  // namespace tandem::exec
