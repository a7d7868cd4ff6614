#include "kernels/exec/step_graph.h"

#include "common/base/require.h"

#include <algorithm>

namespace tandem::exec {
namespace {

bool Meet(const MemoryAccess& a, const MemoryAccess& b) {
  return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

bool Covers(const MemoryAccess& a, const MemoryAccess& b) {
  return a.data <= b.data && b.data + b.bytes <= a.data + a.bytes;
}

}  // namespace

void StepGraphBuilder::Add(const std::vector<MemoryAccess>& accesses) {
  before_.emplace_back();
  for (const Seen& seen : seen_) {
    const bool conflict = std::any_of(accesses.begin(), accesses.end(), [&](const auto& access) {
      return (access.write || seen.access.write) && Meet(access, seen.access);
    });
    if (conflict) before_.back().insert(seen.step);
  }
  // This step overwrites some ranges completely. The builder forgets earlier accesses to these
  // ranges, because a later step that conflicts with such an access waits for this step, and this
  // step waits for the step of the access.
  std::erase_if(seen_, [&](const Seen& seen) {
    return std::any_of(accesses.begin(), accesses.end(), [&](const auto& access) {
      return access.write && Covers(access, seen.access);
    });
  });
  for (const MemoryAccess& access : accesses) {
    if (access.bytes > 0) seen_.push_back({access, last()});
  }
}

void StepGraphBuilder::Behind(int before) { before_.back().insert(before); }

StepGraph StepGraphBuilder::Build() const {
  StepGraph graph;
  graph.followers.resize(before_.size());
  for (size_t step = 0; step < before_.size(); ++step) {
    graph.waits_for.push_back(static_cast<int>(before_[step].size()));
    for (const int before : before_[step]) {
      TD_REQUIRE(before >= 0 && static_cast<size_t>(before) < step);
      graph.followers[static_cast<size_t>(before)].push_back(static_cast<int>(step));
    }
  }
  return graph;
}

}  // namespace tandem::exec
