// Which steps of a plan must wait for which: steps in program order become a graph by the memory
// that they touch. Memory and not names, so that variables that share memory (kernels/exec/
// memory_plan.h) wait for each other as they must.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

namespace tandem {

// A piece of memory that a step reads or writes.
struct MemoryAccess {
  const std::byte* data;
  size_t bytes;
  bool write;
};

struct StepGraph {
  std::vector<std::vector<int>> followers;  // of each step: steps that wait for it, ascending
  std::vector<int> waits_for;               // of each step: how many steps it waits for
};

// Steps are added in program order; a later step waits for an earlier one when one of them writes
// what the other touches.
class StepGraphBuilder {
 public:
  void Add(const std::vector<MemoryAccess>& accesses);
  // The last step that was added waits for step `before` too.
  void Behind(int before);
  StepGraph Build() const;

 private:
  struct Seen {
    MemoryAccess access;
    int step;
  };
  int last() const { return static_cast<int>(before_.size()) - 1; }

  std::vector<std::set<int>> before_;  // of each step: those that it waits for
  std::vector<Seen> seen_;             // accesses that a later step can still run into
};

}  // namespace tandem
