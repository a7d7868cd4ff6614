// Splits the steps of a plan on a device into segments that can be recorded as graphs
// (common/tensor/launch_graph.h). A segment ends where the host takes part in a step. Shapes are
// static, and all values that change from step to step are in device memory. The kernels of a
// segment are therefore the same launches in every training step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/exec/plan.h"

namespace tandem::exec {

// Plan steps [begin, end), at least one. A segment is either kernels with one condition
// (Op::run_if), or one step that starts a communication or waits for one. The host reads the
// condition before the segment.
struct GraphSegment {
  size_t begin, end;
  // True if the segment has at least two kernels. A graph of one kernel is slower than a launch of
  // the kernel.
  bool worth_graph = false;
};

// Returns the segments in the order of `steps`. Together they contain all of `steps`.
std::vector<GraphSegment> SplitIntoGraphSegments(std::span<const PlanStep> steps);

// Returns text for the user: the number of graphs per step, and the operators between graphs that
// need the host.
std::string PiecesText(const Plan& plan);

}  // namespace tandem::exec
