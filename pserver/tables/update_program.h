// The optimizer of one slice as a small program: parameter, gradient, slots and one optimizer
// operator. The program is planned once, and the executor of trainers runs the plan. A pserver
// therefore applies exactly the update that a trainer would apply.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/executor.h"
#include "kernels/exec/plan.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/optimizer.h"

namespace tandem::pserver {

// Runs the optimizer for one slice or for some rows. Not thread-safe.
class UpdateProgram {
 public:
  struct Slot {
    std::string name;  // name of the slot: "fc_0.w@velocity"
    Tensor value;      // f32 values: one element, or as many as the slice
  };

  // Creates a program for `numel` >= 1 f32 elements of variable `var`. The parameters start at 0,
  // the slots at the optimizer's initial values. `backend` and `device` must outlive this object.
  // INVALID_ARGUMENT: the optimizer or one of its attributes is unknown.
  static StatusOr<std::unique_ptr<UpdateProgram>> Make(const std::string& var, int64_t numel,
                                                       const graph::OptimizerSpec& optimizer,
                                                       const exec::Backend& backend,
                                                       Device& device);

  // Creates a program for `height` rows of `dim` elements, and for sparse gradients of at most
  // `height` rows (kernels/ops/rows/sparse_rows.h). The caller writes the row numbers to rows() and
  // the gradients of these rows to grad().
  static StatusOr<std::unique_ptr<UpdateProgram>> MakeRows(const std::string& var, int64_t height,
                                                           int64_t dim,
                                                           const graph::OptimizerSpec& optimizer,
                                                           const exec::Backend& backend,
                                                           Device& device);

  // Returns whether the values are in host memory. If so, param(), grad(), rows() and the spans of
  // slots may be used. Otherwise only Read and Write may be used.
  bool in_host_memory() const { return param_.place().kind == PlaceKind::kCpu; }
  int64_t numel() const { return param_.numel(); }
  // param_value() is the parameter as an argument of Read and Write. Read copies a value of this
  // program (param_value() or Slot::value) to host memory. Write copies host memory to the value.
  const Tensor& param_value() const { return param_; }
  Status Read(const Tensor& value, float* to) const;
  Status Write(const Tensor& value, const float* from);

  // The parameters, which the caller may read and write in place.
  std::span<float> param() const { return param_.span<float>(); }
  // The memory for the gradient that Apply(learning_rate) uses.
  std::span<float> grad() const { return grad_.span<float>(); }
  // Only after MakeRows: the row numbers of the gradient. The row numbers ascend, and -1 fills the
  // entries after the last row.
  std::span<int64_t> rows() const { return rows_.span<int64_t>(); }
  const std::vector<Slot>& slots() const { return slots_; }

  // Makes one optimizer step with the gradient in grad().
  Status Apply(float learning_rate) { return Apply(grad().data(), learning_rate); }
  // Makes one optimizer step with a gradient anywhere in host memory. Copies the gradient only if
  // the values are in device memory, or if the plan cannot read the gradient from another address
  // (Plan::Readers).
  Status Apply(const float* gradient, float learning_rate);

 private:
  explicit UpdateProgram(Device& device) : device_(device), scope_(device) {}
  static StatusOr<std::unique_ptr<UpdateProgram>> Prepare(const graph::Program& program,
                                                          const graph::ParamGrad& pair,
                                                          const graph::OptimizerSpec& optimizer,
                                                          const exec::Backend& backend,
                                                          Device& device);

  Status ApplyOnDevice(const float* gradient, float learning_rate);

  Device& device_;
  exec::Scope scope_;
  std::unique_ptr<exec::Plan> plan_;
  std::unique_ptr<exec::Executor> executor_;
  Tensor param_, grad_, rows_, learning_rate_;
  std::vector<const void**> grad_readers_;  // the plan's pointers to the gradient; empty: the
                                            // address cannot change (Plan::Readers)
  std::vector<Slot> slots_;
  std::optional<float> device_rate_;  // current value of learning_rate_ in device memory
};

}  // namespace tandem::pserver
