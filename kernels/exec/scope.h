// Stores the variables that live from step to step: parameters, optimizer slots, statistics.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/tensor/tensor.h"
#include "kernels/graph/program.h"

namespace tandem::exec {

// Holds variables by name. Not thread-safe. Must not change while an executor runs a plan that uses
// the scope. Several plans (train, evaluate) may share one scope.
class Scope {
 public:
  // `device` is not owned and must outlive the scope.
  explicit Scope(Device& device) : device_(device) {}

  Device& device() const { return device_; }
  // Returns the variable `name`, and allocates the variable first if it does not exist.
  // FAILED_PRECONDITION: the existing variable has another description.
  StatusOr<Tensor> Declare(const std::string& name, const TensorDesc& desc);
  // Adds the variable `name`, which shares the memory of `tensor`. REQUIRES: the scope has no such
  // variable.
  void Share(const std::string& name, const Tensor& tensor);
  const Tensor* Find(std::string_view name) const;
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

 private:
  Device& device_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// If `status` is RESOURCE_EXHAUSTED, returns it with the names of the program's largest variables
// appended. Otherwise returns `status` unchanged.
Status NameLargest(const Status& status, const graph::Program& program);

// Writes elements [offset, offset + out.size()) of the initial value of variable `name` to `out`.
// `shape` is the shape of the whole variable. The bits do not depend on the ranges in which callers
// fill the variable.
void FillInitial(const std::string& name, const graph::Init& init, const Shape& shape,
                 uint64_t seed, int64_t offset, std::span<float> out);

// Declares every kParam and kState of the program and sets its initial value. RESOURCE_EXHAUSTED:
// these variables need more than the memory of the machine.
Status Initialize(const graph::Program& program, uint64_t seed, Scope& scope);

}  // namespace tandem::exec
