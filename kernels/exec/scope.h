// Stores the variables that live from step to step: parameters, optimizer slots, statistics.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/tensor/tensor.h"
#include "kernels/graph/program.h"

namespace tandem {

// Not thread-safe. Must not change while an executor whose plan uses it runs. Several plans (train,
// evaluate) may share one scope.
class Scope {
 public:
  explicit Scope(Device& device) : device_(device) {}  // Not owned; must outlive this.

  Device& device() const { return device_; }
  // Returns the variable; allocates it if it does not exist. FAILED_PRECONDITION: it exists with
  // another description.
  StatusOr<Tensor> Declare(const std::string& name, const TensorDesc& desc);
  const Tensor* Find(std::string_view name) const;
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

 private:
  Device& device_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// Returns RESOURCE_EXHAUSTED with the names of the largest variables appended. Returns any other
// status unchanged.
Status NameLargest(const Status& status, const Program& program);

// Writes elements [offset, offset + out.size()) of the initial value of variable `name`, whose
// whole shape is `shape`. The bits do not depend on how the variable is split into calls.
void FillInitial(const std::string& name, const Init& init, const Shape& shape, uint64_t seed,
                 int64_t offset, std::span<float> out);

// Declares every kParam and kState of the program and sets its initial value. RESOURCE_EXHAUSTED:
// they need more than the memory of the machine.
Status Initialize(const Program& program, uint64_t seed, Scope& scope);

}  // namespace tandem
