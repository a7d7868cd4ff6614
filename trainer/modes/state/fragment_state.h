// The state of a rank that averages fragments of its parameters (kernels/graph/distribute/
// fragments.h): the conditions of each step, and the outer parameters at the start of a job.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/exec/scope.h"
#include "kernels/graph/distribute/fragments.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Sets the variables of fragments in a rank's scope. Not thread-safe.
class FragmentState {
 public:
  // `vars`: the result of AppendFragments.
  FragmentState(const graph::FragmentRule& rule, graph::FragmentVars vars)
      : rule_(rule), vars_(std::move(vars)), pending_(static_cast<size_t>(rule.fragments)) {}

  // Copies each parameter to its outer parameter, if the checkpoint `state` lacks the outer
  // parameter. Rank 0 must call Start before the other ranks receive its scope.
  Status Start(exec::Scope& scope, const TensorMap& state) const;
  // Reads from the scope which fragments wait for the end of an average. Every rank must call Read
  // after it has received the state of rank 0, and before the first BeginStep.
  Status Read(const exec::Scope& scope);
  // Sets the conditions of `step`. The caller must call BeginStep before each step.
  Status BeginStep(exec::Scope& scope, int64_t step);
  // Returns whether the ranks have applied an average in any step since the last call. The result
  // is the same on all ranks.
  bool TakeApplied() { return std::exchange(applied_, false); }

  // Returns the states that are equal on all ranks.
  const std::vector<std::string>& common() const { return vars_.common; }

 private:
  const graph::FragmentRule rule_;
  const graph::FragmentVars vars_;
  std::vector<bool> pending_;  // by fragment: an average has begun and was not applied
  bool applied_ = false;
};

}  // namespace tandem::trainer
