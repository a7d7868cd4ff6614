// Builds the dependency graph of a plan's steps from the memory that they touch. It uses memory
// instead of names, because variables may share memory (kernels/exec/memory_plan.h) and must then
// wait for each other.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace tandem {

// A range of memory that a plan step reads or writes.
struct MemoryAccess {
  const std::byte* data;
  size_t bytes;
  bool write;
};

struct StepGraph {
  std::vector<std::vector<int>> followers;  // by step: steps that wait for it, ascending
  std::vector<int> waits_for;               // by step: number of steps it waits for
};

// Add plan steps in program order. A later step waits for an earlier one if one of them writes
// memory that the other touches.
class StepGraphBuilder {
 public:
  void Add(const std::vector<MemoryAccess>& accesses);
  // Makes the last added step wait for step `before` too.
  void Behind(int before);
  StepGraph Build() const;

 private:
  struct Seen {
    MemoryAccess access;
    int step;
  };
  int last() const { return static_cast<int>(before_.size()) - 1; }

  std::vector<std::set<int>> before_;  // by step: steps for which it waits
  std::vector<Seen> seen_;             // accesses that a later step may still conflict with
};

}  // namespace tandem
