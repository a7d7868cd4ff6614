#include "kernels/graph/passes/update_early.h"

#include <algorithm>

#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

// Returns the earliest index to which the update at index `at` may move. The update stays after the
// start of any communication that begins after the communication of the update's gradient.
size_t Earliest(const Program& program, size_t at) {
  size_t to = at;
  while (to > 0 && !Conflict(program.ops[at], program.ops[to - 1])) --to;
  if (to == 0 || program.ops[to - 1].role != ops::OpRole::kComm) return to;
  for (size_t next = to; next < at; ++next) {
    if (program.ops[next].role == ops::OpRole::kComm) return next + 1;
  }
  return at;
}

}  // namespace

StatusOr<PassOutcome> UpdateEarly(Program& program, PassContext&) {
  PassOutcome outcome;
  const auto begin = program.ops.begin();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].role != ops::OpRole::kOptimize) continue;
    const size_t to = Earliest(program, i);
    const bool passes_backward =
        std::any_of(begin + static_cast<ptrdiff_t>(to), begin + static_cast<ptrdiff_t>(i),
                    [](const ops::Op& op) { return op.role == ops::OpRole::kBackward; });
    if (!passes_backward) continue;
    std::rotate(begin + static_cast<ptrdiff_t>(to), begin + static_cast<ptrdiff_t>(i),
                begin + static_cast<ptrdiff_t>(i) + 1);
    ++outcome.matched;
  }
  if (outcome.matched == 0) outcome.reason = "no update can run before the end of backward";
  return outcome;
}

}  // namespace tandem::graph
