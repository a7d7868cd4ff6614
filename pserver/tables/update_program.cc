#include "pserver/tables/update_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Builds the program for parameters of `shape`: [numel], or [height, dim] if `pair` has gradients
// of rows.
StatusOr<graph::Program> Build(const graph::ParamGrad& pair, const Shape& shape,
                               const graph::OptimizerSpec& optimizer) {
  graph::Program program;
  program.name = "update:" + pair.param;
  const TensorDesc desc{DType::kF32, shape};
  TD_RETURN_IF_ERROR(
      program.AddVar({.name = pair.param, .kind = graph::VarKind::kParam, .desc = desc}));
  TD_RETURN_IF_ERROR(
      program.AddVar({.name = pair.grad, .kind = graph::VarKind::kData, .desc = desc}));
  if (!pair.rows.empty()) {
    const TensorDesc rows{DType::kI64, {shape[0]}};
    TD_RETURN_IF_ERROR(
        program.AddVar({.name = pair.rows, .kind = graph::VarKind::kData, .desc = rows}));
  }
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, optimizer, {pair}));
  return program;
}

}  // namespace

StatusOr<std::unique_ptr<UpdateProgram>> UpdateProgram::Make(const std::string& var, int64_t numel,
                                                             const graph::OptimizerSpec& optimizer,
                                                             const exec::Backend& backend,
                                                             Device& device) {
  const graph::ParamGrad pair{var, graph::GradName(var)};
  TD_ASSIGN_OR_RETURN(const graph::Program program, Build(pair, {numel}, optimizer));
  return Prepare(program, pair, optimizer, backend, device);
}

StatusOr<std::unique_ptr<UpdateProgram>> UpdateProgram::MakeRows(
    const std::string& var, int64_t height, int64_t dim, const graph::OptimizerSpec& optimizer,
    const exec::Backend& backend, Device& device) {
  const graph::ParamGrad pair{var, graph::GradName(var), graph::GradName(var) + "@ROWS"};
  TD_ASSIGN_OR_RETURN(const graph::Program program, Build(pair, {height, dim}, optimizer));
  return Prepare(program, pair, optimizer, backend, device);
}

StatusOr<std::unique_ptr<UpdateProgram>> UpdateProgram::Prepare(
    const graph::Program& program, const graph::ParamGrad& pair,
    const graph::OptimizerSpec& optimizer, const exec::Backend& backend, Device& device) {
  auto update = std::unique_ptr<UpdateProgram>(new UpdateProgram(device));
  // The seed has no effect: a trainer sends the initial parameters, and the optimizer initialises
  // slots with constants.
  TD_RETURN_IF_ERROR(exec::Initialize(program, /*seed=*/0, update->scope_));
  TD_ASSIGN_OR_RETURN(update->plan_,
                      exec::Plan::Make(program, backend, update->scope_, /*comm=*/nullptr, {}));
  update->executor_ = std::make_unique<exec::Executor>(*update->plan_);
  TD_ASSIGN_OR_RETURN(update->param_, update->plan_->Get(pair.param));
  TD_ASSIGN_OR_RETURN(update->grad_, update->plan_->Get(pair.grad));
  if (!pair.rows.empty()) {
    TD_ASSIGN_OR_RETURN(update->rows_, update->plan_->Get(pair.rows));
  }
  update->grad_readers_ = update->plan_->Readers(pair.grad);
  TD_ASSIGN_OR_RETURN(update->learning_rate_, update->plan_->Get(graph::kLearningRateVar));
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> slots,
                      graph::OptimizerSlots(optimizer, pair.param));
  for (const std::string& name : slots) {
    TD_ASSIGN_OR_RETURN(Tensor value, update->plan_->Get(name));
    CHECK(value.dtype() == DType::kF32) << "slot " << name;
    update->slots_.push_back({name, std::move(value)});
  }
  return update;
}

Status UpdateProgram::Read(const Tensor& value, float* to) const {
  return device_.CopyToHost(to, value.data(), value.bytes());
}

Status UpdateProgram::Write(const Tensor& value, const float* from) {
  return device_.CopyFromHost(value.data(), from, value.bytes());
}

Status UpdateProgram::ApplyOnDevice(const float* gradient, float learning_rate) {
  if (device_rate_ != learning_rate) {
    TD_RETURN_IF_ERROR(Write(learning_rate_, &learning_rate));
    device_rate_ = learning_rate;
  }
  TD_RETURN_IF_ERROR(Write(grad_, gradient));
  return executor_->Run();
}

Status UpdateProgram::Apply(const float* gradient, float learning_rate) {
  TD_REQUIRE(gradient != nullptr);
  if (!in_host_memory()) return ApplyOnDevice(gradient, learning_rate);
  learning_rate_.span<float>()[0] = learning_rate;
  if (grad_readers_.empty() && gradient != grad().data()) {
    std::copy_n(gradient, grad().size(), grad().data());
  }
  for (const void** reader : grad_readers_) *reader = gradient;
  return executor_->Run();
}

}  // namespace tandem::pserver
