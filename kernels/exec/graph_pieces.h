// Where a plan on a device is cut so that its pieces can be recorded as graphs
// (common/tensor/launch_graph.h): wherever the host has a part in a step. Shapes are static, and
// whatever changes from step to step lies on the device, so kernels between two cuts are the same
// launches in every step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/exec/plan.h"

namespace tandem {

// Steps [begin, end) of a plan, at least one: kernels that run under one condition, which the host
// reads before them, or a communication, which the host starts or waits for.
struct GraphSegment {
  size_t begin, end;
  // Two kernels or more: one launch takes less time than one graph.
  bool worth_graph = false;
};

// In order; together they are all of `steps`.
std::vector<GraphSegment> SplitIntoGraphSegments(std::span<const PlanStep> steps);

// For people: how many graphs a step becomes, and which operators need the host between them.
std::string PiecesText(const Plan& plan);

}  // namespace tandem
