#include "kernels/exec/nan_check.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/tensor/finite.h"

namespace tandem::exec {
namespace {

constexpr uint64_t kNone = NonFiniteScan::kNone;

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace

NanCheck::NanCheck(const Plan& plan, const Backend& backend) : plan_(plan), backend_(backend) {
  // A slot without a variable also has one position in the arguments.
  const auto floats = [&plan](const std::vector<std::vector<std::string>>& slots) {
    std::vector<Floats> found;
    size_t position = 0;
    for (const auto& slot : slots) {
      for (const std::string& var : slot) {
        const size_t at = position++;
        if (var.empty()) continue;
        const TensorDesc& desc = plan.program().FindVar(var)->desc;
        if (IsFloat(desc.dtype)) found.push_back({var, at, desc});
      }
      if (slot.empty()) ++position;
    }
    return found;
  };
  for (const PlanStep& step : plan.steps()) {
    const ops::Op& op = plan.program().ops[static_cast<size_t>(step.op)];
    StepFloats found{.in = floats(op.inputs), .out = floats(op.outputs), .written = {}};
    size_t position = 0;
    for (const auto& slot : op.outputs) {
      for (const std::string& var : slot) {
        const size_t at = position++;
        if (!var.empty()) found.written.emplace_back(at, plan.program().FindVar(var)->desc.bytes());
      }
      if (slot.empty()) ++position;
    }
    steps_.push_back(std::move(found));
  }
}

StatusOr<std::unique_ptr<NanCheck>> NanCheck::Make(const Plan& plan, const Backend& backend) {
  std::unique_ptr<NanCheck> check(new NanCheck(plan, backend));
  Device* const device = plan.device();
  if (device == nullptr) return check;
  for (const StepFloats& step : check->steps_) {
    check->cells_count_ = std::max(check->cells_count_, 1 + step.in.size() + step.out.size());
  }
  const Found none(check->cells_count_, kNone);
  const size_t bytes = none.size() * sizeof(uint64_t);
  TD_ASSIGN_OR_RETURN(check->cells_, device->Allocate(bytes));
  TD_RETURN_IF_ERROR(device->CopyFromHost(check->cells_.get(), none.data(), bytes));
  return check;
}

bool NanCheck::IsGone(const StepFloats& step, const PlanStep& at, const Floats& in) {
  const auto begin = reinterpret_cast<uintptr_t>(at.args.in[in.position]);
  const uintptr_t end = begin + in.desc.bytes();
  return std::any_of(step.written.begin(), step.written.end(), [&](const auto& output) {
    const auto to = reinterpret_cast<uintptr_t>(at.args.out[output.first]);
    return to < end && begin < to + output.second;
  });
}

// Makes the error for a step from the search results of its outputs (`out`) and inputs (`in`).
Status NanCheck::Verdict(const StepFloats& step, const PlanStep& at, std::span<const uint64_t> out,
                         std::span<const uint64_t> in) {
  // Returns text such as "fc_0.w[3] of f32[4,2]".
  const auto named = [](const Floats& var, uint64_t found) {
    return absl::StrFormat("%s[%d] of %s", var.var, found, ToString(var.desc));
  };
  std::vector<std::string> gave, given, gone;
  for (size_t i = 0; i < step.out.size(); ++i) {
    if (out[i] != kNone) gave.push_back(named(step.out[i], out[i]));
  }
  for (size_t i = 0; i < step.in.size(); ++i) {
    if (IsGone(step, at, step.in[i])) {
      gone.push_back(step.in[i].var);
    } else if (in[i] != kNone) {
      given.push_back(named(step.in[i], in[i]));
    }
  }
  const bool all = gone.size() == step.in.size() && !gone.empty();
  std::string before = !given.empty() ? "not finite before: " + absl::StrJoin(given, ", ")
                       : all          ? ""
                       : gone.empty() ? "all inputs are finite"
                                      : "all other inputs are finite";
  if (!gone.empty()) {
    before += absl::StrFormat("%sthe value of %s is unknown, because the result has overwritten it",
                              before.empty() ? "" : "; ", absl::StrJoin(gone, ", "));
  }
  return DataLoss("check_nan_inf: the result %s is not finite [TD1210]; %s",
                  absl::StrJoin(gave, ", "), before);
}

Status NanCheck::Search(const std::vector<Floats>& vars, const void* const* data,
                        NonFiniteScan search) {
  std::vector<NonFiniteScan::Floats> tensors;
  for (const Floats& var : vars) {
    const void* const at = data[var.position];
    tensors.push_back({at, var.desc.dtype, at == nullptr ? 0 : var.desc.shape.numel()});
  }
  search.tensors = tensors;
  return tensors.empty() ? OkStatus() : backend_.StartSearch(*plan_.device(), search);
}

Status NanCheck::BeforeStep(const PlanStep& step, int64_t) {
  return step.comm_start >= 0 ? ReadBack() : OkStatus();
}

Status NanCheck::OnStep(const PlanStep& step, int64_t run, Time, Time) {
  // The result of a communication is checked after the step that waits for it.
  if (step.comm_start >= 0) return OkStatus();
  const auto index = static_cast<size_t>(&step - plan_.steps().data());
  const StepFloats& floats = steps_[index];
  if (plan_.device() != nullptr) {
    auto* const cells = reinterpret_cast<uint64_t*>(cells_.get());
    NonFiniteScan search{.number = static_cast<uint64_t>(run) * steps_.size() + index,
                         .tensors = {},
                         .inputs = false,
                         .failed = cells,
                         .first = cells + 1};
    TD_RETURN_IF_ERROR(Search(floats.out, step.args.out, search));
    search.inputs = true;
    search.first += floats.out.size();
    return Search(floats.in, step.args.in, search);
  }
  const auto look = [](const std::vector<Floats>& vars, const void* const* data) {
    Found found;
    for (const auto& [var, position, desc] : vars) {
      const void* const at = data[position];
      found.push_back(static_cast<uint64_t>(
          at == nullptr ? -1 : FirstNotFinite(at, desc.dtype, desc.shape.numel())));
    }
    return found;
  };
  const Found out = look(floats.out, step.args.out);
  if (std::all_of(out.begin(), out.end(), [](uint64_t at) { return at == kNone; })) {
    return OkStatus();
  }
  return Verdict(floats, step, out, look(floats.in, step.args.in));
}

Status NanCheck::AfterRun() { return ReadBack(); }

// Reads the search results of a device. If the device also reports an error, the message has both
// errors, because either may have caused the other.
Status NanCheck::ReadBack() {
  Device* const device = plan_.device();
  if (device == nullptr) return OkStatus();
  uint64_t number = kNone;
  const Status fault = device->CopyToHost(&number, cells_.get(), sizeof(number));
  if (number == kNone) return fault;
  Found cells(cells_count_, kNone);
  const size_t bytes = cells.size() * sizeof(uint64_t);
  TD_RETURN_IF_ERROR(device->CopyToHost(cells.data(), cells_.get(), bytes));
  const size_t index = number % steps_.size();
  const StepFloats& step = steps_[index];
  const std::span<const uint64_t> found = std::span(cells).subspan(1);
  const Status verdict = AtOp(plan_.program(), plan_.steps()[index].op,
                              Verdict(step, plan_.steps()[index], found.first(step.out.size()),
                                      found.subspan(step.out.size(), step.in.size())));
  std::fill(cells.begin(), cells.end(), kNone);
  TD_RETURN_IF_ERROR(device->CopyFromHost(cells_.get(), cells.data(), bytes));
  return fault.ok() ? verdict
                    : Status(verdict.code(), absl::StrFormat("%s; and on the device: %s",
                                                             verdict.message(), fault.message()));
}

}  // namespace tandem::exec
