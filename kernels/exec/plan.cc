#include "kernels/exec/plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "kernels/exec/commit.h"
#include "kernels/ops/cuda/code_cache.h"

namespace tandem::exec {

// Makes a plan in several passes over the program: persistent storage, positions of the waits,
// memory of the temporaries, kernels. For several threads, a last pass finds the dependencies
// between steps.
class PlanMaker {
 public:
  PlanMaker(const graph::Program& program, const Backend& backend, Scope& scope, CommHandler* comm,
            const PlanOptions& options)
      : program_(program), backend_(backend), scope_(scope), comm_(comm), options_(options) {}

  StatusOr<std::unique_ptr<Plan>> Make();

 private:
  Status PlaceLasting();
  Status PlaceTemporaries();
  Status FindKernels() const;
  Status AddSteps();
  Status AddComm(int op_index, int flight);
  Status AddKernel(int op_index);
  ops::KernelArgs Arguments(const ops::Op& op);
  std::vector<MemoryAccess> AccessesOf(const ops::Op& op) const;
  void LinkSteps();
  bool IsOff(const std::string& type, std::string_view impl) const;
  StatusOr<ops::Kernel> Choose(const ops::OpView& view);
  void NoteRefused(const std::string& type, std::string_view impl,
                   const std::vector<std::string>& reasons);

  void* Address(const std::string& var) const;
  const TensorDesc* Desc(const std::string& var) const;
  const float* Condition(const ops::Op& op) const {
    return static_cast<float*>(Address(op.run_if));
  }
  template <typename Fn>
  static void ForEachPosition(const std::vector<std::vector<std::string>>& slots, Fn fn);

  const graph::Program& program_;
  const Backend& backend_;
  Scope& scope_;
  CommHandler* const comm_;
  const PlanOptions& options_;
  std::unique_ptr<Plan> plan_{new Plan()};
  std::unordered_map<std::string, Tensor> storage_;
  std::vector<Flight> flights_;
  ops::CodeCache own_code_;
  int commit_ = 0;  // index of the first operator that must run after all communication
};

template <typename Fn>
void PlanMaker::ForEachPosition(const std::vector<std::vector<std::string>>& slots, Fn fn) {
  for (const auto& slot : slots) {
    if (slot.empty()) fn(std::string());
    for (const std::string& name : slot) fn(name);
  }
}

void* PlanMaker::Address(const std::string& var) const {
  TD_REQUIRE(var.empty() || storage_.contains(var));
  return var.empty() ? nullptr : storage_.at(var).data();
}

const TensorDesc* PlanMaker::Desc(const std::string& var) const {
  TD_REQUIRE(var.empty() || program_.FindVar(var) != nullptr);
  return var.empty() ? nullptr : &program_.FindVar(var)->desc;
}

Status PlanMaker::PlaceLasting() {
  for (const graph::Var& var : program_.vars()) {
    if (var.kind == graph::VarKind::kTemp || var.kind == graph::VarKind::kRemote) continue;
    if (var.kind == graph::VarKind::kData) {
      TD_ASSIGN_OR_RETURN(storage_[var.name], Tensor::Make(var.desc, scope_.device()));
    } else {
      TD_ASSIGN_OR_RETURN(storage_[var.name], scope_.Declare(var.name, var.desc));
    }
    plan_->readable_[var.name] = storage_[var.name];
  }
  return OkStatus();
}

Status PlanMaker::PlaceTemporaries() {
  MemoryOptions memory = options_.memory;
  memory.apart.merge(backend_.Apart());
  TD_ASSIGN_OR_RETURN(plan_->memory_, PlanMemory(program_, flights_, options_.fetch, memory));
  TD_ASSIGN_OR_RETURN(plan_->arena_, scope_.device().Allocate(plan_->memory_.bytes));
  for (const auto& [name, offset] : plan_->memory_.offsets) {
    storage_[name] =
        Tensor(program_.FindVar(name)->desc, scope_.device().place(), plan_->arena_, offset);
  }
  std::vector<std::span<std::byte>> kept;
  for (const std::string& name : options_.fetch) {
    TD_REQUIRE(storage_.contains(name));
    const Tensor& tensor = plan_->readable_[name] = storage_[name];
    if (program_.FindVar(name)->kind != graph::VarKind::kTemp) continue;
    kept.emplace_back(static_cast<std::byte*>(tensor.data()), tensor.bytes());
  }
  plan_->drop_ = options_.drop;
  if (scope_.device().place().kind == PlaceKind::kCpu) {
    plan_->droppable_ = WholePages({plan_->arena_.get(), plan_->memory_.bytes}, std::move(kept));
  }
  return OkStatus();
}

bool PlanMaker::IsOff(const std::string& type, std::string_view impl) const {
  const auto holds = [](const std::vector<std::string>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto& only = options_.onednn_ops;
  return holds(options_.disable_impls, impl) ||
         (impl == "onednn" && !only.empty() && !holds(only, type));
}

void PlanMaker::NoteRefused(const std::string& type, std::string_view impl,
                            const std::vector<std::string>& reasons) {
  if (reasons.empty()) return;
  const std::string note =
      absl::StrFormat("%s by %s: %s\n", type, impl, absl::StrJoin(reasons, "; "));
  if (!absl::StrContains(plan_->notes_, note)) plan_->notes_ += note;
}

StatusOr<ops::Kernel> PlanMaker::Choose(const ops::OpView& view) {
  const std::string& type = view.op().type;
  std::vector<std::string> reasons;
  for (const ops::KernelImpl& impl : backend_.Find(type)) {
    if (IsOff(type, impl.name)) {
      reasons.push_back(std::string(impl.name) + ": switched off");
      continue;
    }
    auto kernel =
        impl.prepare(view, {.settings = options_.settings,
                            .threads = options_.threads,
                            .device = &scope_.device(),
                            .code = options_.code != nullptr ? options_.code : &own_code_});
    if (kernel.ok()) {
      plan_->choices_.push_back(type + ": " + impl.name);
      if (!view.op().body.empty()) NoteRefused(type, impl.name, reasons);
      return kernel;
    }
    if (kernel.status().code() != StatusCode::kUnimplemented) return kernel.status();
    reasons.push_back(std::string(impl.name) + ": " + std::string(kernel.status().message()));
  }
  const std::string why = reasons.empty() ? "none exists" : absl::StrJoin(reasons, "; ");
  return Unimplemented("no kernel for %s on %s supports this operator (%s) [TD5003]", type,
                       ToString(scope_.device().place()), why);
}

ops::KernelArgs PlanMaker::Arguments(const ops::Op& op) {
  auto& pointers = plan_->pointers_.emplace_back();
  const ops::SlotList& slots = ops::FindOp(op.type)->inputs;
  for (size_t s = 0; s < op.inputs.size(); ++s) {
    const auto add = [&](const std::string& v) {
      pointers.push_back(slots[s].shape_only ? nullptr : Address(v));
    };
    if (op.inputs[s].empty()) add("");
    for (const std::string& v : op.inputs[s]) add(v);
  }
  const size_t outputs = pointers.size();
  TD_REQUIRE(op.inputs.size() <= slots.size());
  ForEachPosition(op.outputs, [&](const std::string& v) { pointers.push_back(Address(v)); });
  return {.in = pointers.data(),
          .out = pointers.data() + outputs,
          .scratch = nullptr,
          .state = nullptr,
          .stream = scope_.device().stream()};
}

Status PlanMaker::AddKernel(int op_index) {
  const ops::Op& op = plan_->program_.ops[op_index];
  std::vector<const TensorDesc*> in, out;
  ForEachPosition(op.inputs, [&](const std::string& v) { in.push_back(Desc(v)); });
  ForEachPosition(op.outputs, [&](const std::string& v) { out.push_back(Desc(v)); });
  TD_ASSIGN_OR_RETURN(ops::Kernel kernel, Choose(ops::OpView(op, *ops::FindOp(op.type), in, out)));
  plan_->scratch_bytes_ = std::max(plan_->scratch_bytes_, kernel.scratch_bytes);
  PlanStep step{.run = kernel.run, .op = op_index};
  step.args = Arguments(op);
  step.args.state = kernel.state.get();
  step.run_if = Condition(op);
  plan_->states_.push_back(std::move(kernel.state));
  plan_->steps_.push_back(step);
  return OkStatus();
}

Status PlanMaker::AddComm(int op_index, int flight) {
  const ops::Op& op = plan_->program_.ops[op_index];
  if (comm_ == nullptr) {
    return FailedPrecondition(
        "operator %s communicates with other ranks, but the program has no communicator", op.type);
  }
  CommNode node{
      .op = &op, .in = {}, .out = {}, .place = scope_.device().place(), .device = plan_->device_};
  const ops::KernelArgs args = Arguments(op);
  size_t position = 0;
  ForEachPosition(op.inputs, [&](const std::string& v) {
    const void* data = args.in[position++];
    if (!v.empty()) node.in.push_back({v, *Desc(v), const_cast<void*>(data)});
  });
  ForEachPosition(op.outputs, [&](const std::string& v) {
    if (!v.empty()) node.out.push_back({v, *Desc(v), Address(v)});
  });
  TD_ASSIGN_OR_RETURN(const int index, comm_->Register(node));
  TD_REQUIRE(static_cast<size_t>(flight) == plan_->comm_nodes_.size());
  plan_->comm_nodes_.push_back(index);
  plan_->choices_.push_back(op.type + ": communication");
  plan_->steps_.push_back(
      {.args = args, .op = op_index, .comm_start = flight, .run_if = Condition(op)});
  return OkStatus();
}

// UNIMPLEMENTED: the device has no kernel for an operator. The message names all such operators.
Status PlanMaker::FindKernels() const {
  std::set<std::string> missing;
  for (const ops::Op& op : program_.ops) {
    if (!ops::FindOp(op.type)->is_comm && backend_.Find(op.type).empty()) missing.insert(op.type);
  }
  if (missing.empty()) return OkStatus();
  return Unimplemented(
      "the place %s has no kernels for these operators: %s [TD5003]; hint: use --place=cpu",
      ToString(scope_.device().place()), absl::StrJoin(missing, ", "));
}

Status PlanMaker::AddSteps() {
  const int n = static_cast<int>(program_.ops.size());
  int next_flight = 0;
  for (int i = 0; i <= n; ++i) {
    for (size_t f = 0; f < flights_.size(); ++f) {
      if (flights_[f].wait != i) continue;
      const int op = flights_[f].start;
      plan_->steps_.push_back(
          {.args = Arguments(plan_->program_.ops[op]), .op = op, .comm_wait = static_cast<int>(f)});
    }
    if (i == n) break;
    if (ops::FindOp(program_.ops[i].type)->is_comm) {
      TD_RETURN_IF_ERROR(AddComm(i, next_flight++));
    } else {
      TD_RETURN_IF_ERROR(AddKernel(i));
    }
  }
  for (int t = 0; t < plan_->num_threads_; ++t) {
    TD_ASSIGN_OR_RETURN(plan_->scratch_.emplace_back(),
                        scope_.device().Allocate(plan_->scratch_bytes_));
  }
  for (PlanStep& step : plan_->steps_) step.args.scratch = plan_->scratch(0);
  return OkStatus();
}

std::vector<MemoryAccess> PlanMaker::AccessesOf(const ops::Op& op) const {
  std::vector<MemoryAccess> accesses;
  const auto add = [&](const std::string& v, bool write) {
    accesses.push_back({static_cast<const std::byte*>(Address(v)), Desc(v)->bytes(), write});
  };
  graph::ForEachMemoryRead(op, [&](const std::string& v) { add(v, false); });
  graph::ForEachWrite(op, [&](const std::string& v) { add(v, true); });
  return accesses;
}

// Builds the step graph. Each communication waits for the start of the previous one, because all
// ranks must start communications in the same order.
void PlanMaker::LinkSteps() {
  StepGraphBuilder graph;
  // The indices of plan steps that start a communication, and of plan steps that wait for one.
  std::vector<int> starts, waits;
  for (size_t i = 0; i < plan_->steps_.size(); ++i) {
    const PlanStep& step = plan_->steps_[i];
    graph.Add(AccessesOf(program_.ops[step.op]));
    if (step.comm_start >= 0) {
      if (!starts.empty()) graph.Behind(starts.back());
      starts.push_back(static_cast<int>(i));
    } else if (step.comm_wait >= 0) {
      TD_REQUIRE(static_cast<size_t>(step.comm_wait) < starts.size());
      graph.Behind(starts[step.comm_wait]);
      waits.push_back(static_cast<int>(i));
    } else if (step.op >= commit_) {
      for (const int wait : waits) graph.Behind(wait);
    }
  }
  plan_->graph_ = graph.Build();
}

StatusOr<std::unique_ptr<Plan>> PlanMaker::Make() {
  TD_RETURN_IF_ERROR(graph::Verify(program_));
  plan_->program_ = program_;
  plan_->comm_ = comm_;
  const bool cpu = scope_.device().place().kind == PlaceKind::kCpu;
  plan_->device_ = cpu ? nullptr : &scope_.device();
  plan_->recorder_ = options_.graphs && !cpu ? &backend_ : nullptr;
  plan_->num_threads_ = cpu ? options_.num_threads : 1;
  plan_->kernel_threads_ = cpu ? options_.threads : 1;
  if (!cpu) TD_RETURN_IF_ERROR(FindKernels());
  TD_RETURN_IF_ERROR(PlaceLasting());
  flights_ = FindCommIntervals(program_);
  commit_ = options_.commit ? FindCommit(program_).op : static_cast<int>(program_.ops.size());
  for (Flight& flight : flights_) flight.wait = std::min(flight.wait, commit_);
  TD_RETURN_IF_ERROR(PlaceTemporaries());
  TD_RETURN_IF_ERROR(AddSteps());
  if (plan_->num_threads_ > 1) LinkSteps();
  TD_REQUIRE(plan_->pointers_.size() == plan_->steps_.size());
  TD_REQUIRE(plan_->comm_nodes_.size() == flights_.size());
  return std::move(plan_);
}

Plan::~Plan() = default;

void* Plan::scratch(int thread) const {
  TD_REQUIRE(thread >= 0 && static_cast<size_t>(thread) < scratch_.size());
  return scratch_[static_cast<size_t>(thread)].get();
}

void Plan::DropTemporaries() const {
  for (const auto& pages : droppable_) GiveBack(pages);
}

StatusOr<std::unique_ptr<Plan>> Plan::Make(const graph::Program& program, const Backend& backend,
                                           Scope& scope, CommHandler* comm,
                                           const PlanOptions& options) {
  auto plan = PlanMaker(program, backend, scope, comm, options).Make();
  TD_RETURN_IF_ERROR(NameLargest(plan.status(), program));
  return plan;
}

StatusOr<Tensor> Plan::Get(std::string_view var) const {
  const auto it = readable_.find(std::string(var));
  if (it == readable_.end()) {
    return NotFound(
        "variable \"%s\" is not available, expected data, a parameter, state or a fetched variable",
        std::string(var));
  }
  return it->second;
}

std::vector<const void**> Plan::Readers(std::string_view var) {
  std::vector<const void**> readers;
  const StatusOr<Tensor> tensor = Get(var);
  if (!tensor.ok()) return readers;
  const void* const data = tensor->data();
  for (size_t i = 0; i < steps_.size(); ++i) {
    // Arguments of the operator: inputs, then outputs.
    std::vector<void*>& arguments = pointers_[i];
    const auto inputs = static_cast<size_t>(steps_[i].args.out - arguments.data());
    TD_REQUIRE(inputs <= arguments.size());
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (arguments[a] != data) continue;
      if (a >= inputs || steps_[i].run == nullptr) return {};
      readers.push_back(const_cast<const void**>(&arguments[a]));
    }
  }
  return readers;
}

}  // namespace tandem::exec
