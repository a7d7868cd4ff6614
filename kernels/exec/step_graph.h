// Builds the dependency graph of a plan's steps from the memory that they read and write. The
// builder compares memory instead of names, because variables may share memory
// (kernels/exec/memory_plan.h). Steps that use the same memory must wait for each other.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace tandem::exec {

// A range of memory that a plan step reads or writes.
struct MemoryAccess {
  const std::byte* data;
  size_t bytes;
  bool write;
};

struct StepGraph {
  std::vector<std::vector<int>> followers;  // by step: the steps that wait for this step, ascending
  std::vector<int> waits_for;  // by step: the number of steps for which this step waits
};

// Builds the graph. The caller adds the plan steps in program order. A later step waits for an
// earlier step if both use the same memory and at least one of them writes it.
class StepGraphBuilder {
 public:
  void Add(const std::vector<MemoryAccess>& accesses);
  // Makes the step that was added last also wait for step `before`.
  void Behind(int before);
  StepGraph Build() const;

 private:
  struct Seen {
    MemoryAccess access;
    int step;
  };
  int last() const { return static_cast<int>(before_.size()) - 1; }

  std::vector<std::set<int>> before_;  // by step: the earlier steps for which the step waits
  std::vector<Seen> seen_;             // earlier accesses that may conflict with a later step
};

}  // namespace tandem::exec
