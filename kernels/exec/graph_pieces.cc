#include "kernels/exec/graph_pieces.h"

#include <map>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::exec {
namespace {

using TypeCounts = std::map<std::string, int>;

// Returns text such as "; the host reads conditions of: sgd (6), momentum (1)".
std::string Listed(const char* what, const TypeCounts& types) {
  std::string text;
  for (const auto& [type, count] : types) {
    text += absl::StrFormat("%s%s (%d)", text.empty() ? "" : ", ", type, count);
  }
  return text.empty() ? "" : absl::StrFormat("; the host %s: %s", what, text);
}

}  // namespace

std::vector<GraphSegment> SplitIntoGraphSegments(std::span<const PlanStep> steps) {
  std::vector<GraphSegment> pieces;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool goes_on = !pieces.empty() && steps[i].run != nullptr &&
                         steps[i - 1].run != nullptr && steps[i].run_if == steps[i - 1].run_if;
    if (!goes_on) pieces.push_back({i, i});
    pieces.back().end = i + 1;
    pieces.back().worth_graph = goes_on;
    TD_REQUIRE(steps[i].run == nullptr || steps[i].comm_start < 0);
  }
  return pieces;
}

std::string PiecesText(const Plan& plan) {
  const std::span<const PlanStep> steps = plan.steps();
  size_t graphs = 0, recorded = 0, kernels = 0;
  TypeCounts communications, conditional;
  for (const GraphSegment& piece : SplitIntoGraphSegments(steps)) {
    const PlanStep& first = steps[piece.begin];
    const std::string& type = plan.program().ops[static_cast<size_t>(first.op)].type;
    if (first.comm_start >= 0) ++communications[type];
    if (first.run == nullptr) continue;
    const size_t count = piece.end - piece.begin;
    kernels += count;
    if (first.run_if != nullptr) conditional[type] += static_cast<int>(count);
    if (!piece.worth_graph) continue;
    ++graphs;
    recorded += count;
  }
  return absl::StrFormat("%d of %d kernels of a step in %d graph%s%s%s", recorded, kernels, graphs,
                         graphs == 1 ? "" : "s", Listed("starts and waits for", communications),
                         Listed("reads the condition of", conditional));
}

}  // namespace tandem::exec
