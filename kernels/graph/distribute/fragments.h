// Averages of fragments of the parameters with an outer optimizer. Sources: Douillard et al.,
// "DiLoCo: Distributed Low-Communication Training of Language Models", 2023 (arXiv 2311.08105);
// Douillard et al., "Streaming DiLoCo with overlapping communication", 2025 (arXiv 2501.18512).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// The schedule of the averages, and the use of their results. Step n is the step with index n - 1.
// At each of the first begin_step steps, the ranks average all parameters, and parameters and outer
// parameters become the mean. After begin_step, fragment p begins an average at the steps n at
// which n - begin_step + p * k_steps / fragments is a multiple of k_steps. The ranks apply the
// result `delay` steps later.
struct FragmentRule {
  int64_t k_steps = 1, begin_step = 1;
  int fragments = 1;
  int64_t delay = 0;  // steps; less than k_steps
  // Share of a rank's own parameters when it applies a result. 0: parameters become the result.
  double merge_factor = 0;
  // If true, the result is the outer parameters after a step of SGD with Nesterov momentum with the
  // pseudo-gradient, outer parameters - mean. If false, the result is the mean.
  bool nesterov = false;
  double learning_rate = 0.7, momentum = 0.9;  // used with nesterov

  // Returns whether `step` is one of the first begin_step steps. The index of a job's first step is
  // 0.
  bool IsWarm(int64_t step) const { return step < begin_step; }
  // Returns whether fragment `p` begins an average in `step`.
  bool Begins(int p, int64_t step) const {
    return IsWarm(step) || (step + 1 - begin_step + p * k_steps / fragments) % k_steps == 0;
  }
};

// Names of states (f32 [1]) that select the work of a step. The trainer sets these states before
// each step. kFragmentsWarmVar is 1 in the first begin_step steps. FragmentBeginsVar(p) is 1 if
// fragment p begins an average. FragmentEndsVar(p) is 1 if the ranks apply its result. In the first
// begin_step steps, FragmentEndsVar(p) is 0.
inline constexpr const char* kFragmentsWarmVar = "localsgd@WARM";
std::string FragmentBeginsVar(int p);
std::string FragmentEndsVar(int p);
// Name of the state (f32 [1]) that is 1 from the begin of an average until its end. Checkpoints
// contain the state, so that a resumed job applies the result. The program has the state only with
// `delay`; the trainer sets it.
std::string FragmentPendingVar(int p);

// The variables that the averages add to a program. Their values are equal on all ranks.
struct FragmentVars {
  // Outer parameters have the initial values of the parameters; the trainer copies them.
  struct Outer {
    std::string param, outer;
  };
  std::vector<Outer> outers;        // empty without nesterov
  std::vector<std::string> common;  // all states, including the outer parameters
};

// Divides the layers (ParamGrad::param up to the first '.') into `count` fragments of about equal
// size: the largest layer first, each into the smallest fragment. Within a fragment the order is
// that of `grads`. INVALID_ARGUMENT: there are fewer layers than fragments.
StatusOr<std::vector<std::vector<ParamGrad>>> SplitIntoFragments(
    const Program& program, const std::vector<ParamGrad>& grads, int count);

// Appends the operators that average the fragments and apply the results. `groups`: for each
// fragment, the parameters that share one allreduce. REQUIRES: groups.size() == rule.fragments.
StatusOr<FragmentVars> AppendFragments(
    Program& program, const std::vector<std::vector<std::vector<ParamGrad>>>& groups,
    const FragmentRule& rule, int ranks);

}  // namespace tandem::graph
