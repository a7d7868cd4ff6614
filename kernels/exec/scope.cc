#include "kernels/exec/scope.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/base/require.h"
#include "kernels/exec/initial_values.h"

namespace tandem::exec {

StatusOr<Tensor> Scope::Declare(const std::string& name, const TensorDesc& desc) {
  auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make(desc, device_));
    it = tensors_.emplace(name, std::move(tensor)).first;
  } else if (it->second.desc() != desc) {
    return FailedPrecondition("variable \"%s\" is %s, expected %s", name,
                              ToString(it->second.desc()), ToString(desc));
  }
  return it->second;
}

void Scope::Share(const std::string& name, const Tensor& tensor) {
  TD_REQUIRE(tensor.defined() && !tensors_.contains(name));
  tensors_.emplace(name, tensor);
}

const Tensor* Scope::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

Status NameLargest(const Status& status, const graph::Program& program) {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  std::vector<const graph::Var*> vars;
  for (const graph::Var& var : program.vars()) {
    if (var.kind != graph::VarKind::kRemote) vars.push_back(&var);
  }
  std::stable_sort(vars.begin(), vars.end(), [](const graph::Var* a, const graph::Var* b) {
    return a->desc.bytes() > b->desc.bytes();
  });
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(vars.size(), 5); ++i) {
    names += absl::StrFormat("%s%s %s (%.1f MiB)", i == 0 ? "" : ", ", vars[i]->name,
                             ToString(vars[i]->desc),
                             static_cast<double>(vars[i]->desc.bytes()) / (1 << 20));
  }
  return ResourceExhausted("%s; the largest variables are %s", std::string(status.message()),
                           names);
}

void FillInitial(const std::string& name, const graph::Init& init, const Shape& shape,
                 uint64_t seed, int64_t offset, std::span<float> out) {
  InitialValues(name, init, shape, seed).Fill(offset, out);
}

namespace {

// RESOURCE_EXHAUSTED: parameters and state need more memory than the machine has. Without this
// check, the system would kill the process later.
Status CheckFits(const graph::Program& program) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const graph::Var* largest = nullptr;
  double bytes = 0;
  for (const graph::Var& var : program.vars()) {
    if (var.kind != graph::VarKind::kParam && var.kind != graph::VarKind::kState) continue;
    bytes += static_cast<double>(var.desc.bytes());
    if (largest == nullptr || var.desc.bytes() > largest->desc.bytes()) largest = &var;
  }
  if (largest == nullptr || bytes <= memory) return OkStatus();
  return ResourceExhausted(
      "parameters and state need %.1f GB, but this machine has %.1f GB of memory [TD5005]; the "
      "largest variable is \"%s\" %s",
      bytes / 1e9, memory / 1e9, largest->name, ToString(largest->desc));
}

}  // namespace

Status Initialize(const graph::Program& program, uint64_t seed, Scope& scope) {
  TD_RETURN_IF_ERROR(CheckFits(program));
  for (const graph::Var& var : program.vars()) {
    if (var.kind != graph::VarKind::kParam && var.kind != graph::VarKind::kState) continue;
    StatusOr<Tensor> declared = scope.Declare(var.name, var.desc);
    TD_RETURN_IF_ERROR(NameLargest(declared.status(), program));
    const Tensor& tensor = *declared;
    if (var.desc.dtype == DType::kI64 && var.init.kind == graph::Init::kConstant) {
      const std::vector<int64_t> counts(static_cast<size_t>(tensor.numel()),
                                        static_cast<int64_t>(var.init.a));
      TD_RETURN_IF_ERROR(scope.device().CopyFromHost(tensor.data(), counts.data(), tensor.bytes()));
      continue;
    }
    if (var.desc.dtype != DType::kF32) {
      return Unimplemented(
          "initial values of variable \"%s\" are not implemented for element type %s", var.name,
          Name(var.desc.dtype));
    }
    std::vector<float> values(static_cast<size_t>(tensor.numel()));
    FillInitial(var.name, var.init, var.desc.shape, seed, 0, values);
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(tensor.data(), values.data(), tensor.bytes()));
  }
  return OkStatus();
}

}  // namespace tandem::exec
