#include "kernels/exec/scope.h"

#include <unistd.h>

#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "kernels/ops/math_loops.h"

namespace tandem {
namespace {

// Inputs and outputs that one weight connects: [k, n] for a matrix, OIHW for a filter.
struct Fans {
  double in, out;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() < 2)
    return {static_cast<double>(shape.numel()), static_cast<double>(shape.numel())};
  if (shape.rank() == 2) return {static_cast<double>(shape[0]), static_cast<double>(shape[1])};
  const auto taps = static_cast<double>(shape.numel(2, shape.rank()));
  return {static_cast<double>(shape[1]) * taps, static_cast<double>(shape[0]) * taps};
}

void FillUniform(uint64_t key, int64_t offset, double low, double high, std::span<float> out) {
  const auto scale = static_cast<float>(high - low);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(low) + scale * UniformAt(key, static_cast<uint64_t>(offset) + i);
  }
}

void FillNormal(uint64_t key, int64_t offset, double mean, double stddev, std::span<float> out) {
  BestMathLoops().normal(key, static_cast<uint64_t>(offset), out.data(),
                         static_cast<int64_t>(out.size()));
  for (float& z : out) z = static_cast<float>(mean) + static_cast<float>(stddev) * z;
}

}  // namespace

StatusOr<Tensor> Scope::Declare(const std::string& name, const TensorDesc& desc) {
  auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make(desc, device_));
    it = tensors_.emplace(name, std::move(tensor)).first;
  } else if (it->second.desc() != desc) {
    return FailedPrecondition("variable \"%s\" is %s, but %s is wanted", name,
                              ToString(it->second.desc()), ToString(desc));
  }
  return it->second;
}

const Tensor* Scope::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

void FillInitial(const std::string& name, const Init& init, const Shape& shape, uint64_t seed,
                 int64_t offset, std::span<float> out) {
  const uint64_t key = StreamKey(seed, "init:" + name);
  const Fans fans = FansOf(shape);
  switch (init.kind) {
    case Init::kConstant:
      std::fill(out.begin(), out.end(), init.a);
      return;
    case Init::kUniform:
      return FillUniform(key, offset, init.a, init.b, out);
    case Init::kNormal:
      return FillNormal(key, offset, init.a, init.b, out);
    case Init::kXavierUniform: {
      const double limit = std::sqrt(6.0 / (fans.in + fans.out));
      return FillUniform(key, offset, -limit, limit, out);
    }
    case Init::kMsraNormal:
      return FillNormal(key, offset, 0.0, std::sqrt(2.0 / fans.in), out);
  }
}

namespace {

// What no machine can hold is refused before the system ends the process for it.
Status CheckFits(const Program& program) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const Var* largest = nullptr;
  double bytes = 0;
  for (const Var& var : program.vars()) {
    if (var.kind != VarKind::kParam && var.kind != VarKind::kState) continue;
    bytes += static_cast<double>(var.desc.bytes());
    if (largest == nullptr || var.desc.bytes() > largest->desc.bytes()) largest = &var;
  }
  if (bytes <= memory) return OkStatus();
  return ResourceExhausted(
      "parameters and state take %.1f GB, this machine has %.1f GB; the largest is \"%s\" %s",
      bytes / 1e9, memory / 1e9, largest->name, ToString(largest->desc));
}

}  // namespace

Status Initialize(const Program& program, uint64_t seed, Scope& scope) {
  TD_RETURN_IF_ERROR(CheckFits(program));
  for (const Var& var : program.vars()) {
    if (var.kind != VarKind::kParam && var.kind != VarKind::kState) continue;
    TD_ASSIGN_OR_RETURN(Tensor tensor, scope.Declare(var.name, var.desc));
    if (var.desc.dtype == DType::kI64 && var.init.kind == Init::kConstant) {
      const std::vector<int64_t> counts(static_cast<size_t>(tensor.numel()),
                                        static_cast<int64_t>(var.init.a));
      TD_RETURN_IF_ERROR(scope.device().CopyFromHost(tensor.data(), counts.data(), tensor.bytes()));
      continue;
    }
    if (var.desc.dtype != DType::kF32) {
      return Unimplemented("initial values of \"%s\": %s variables are not built yet", var.name,
                           Name(var.desc.dtype));
    }
    std::vector<float> values(static_cast<size_t>(tensor.numel()));
    FillInitial(var.name, var.init, var.desc.shape, seed, 0, values);
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(tensor.data(), values.data(), tensor.bytes()));
  }
  return OkStatus();
}

}  // namespace tandem
