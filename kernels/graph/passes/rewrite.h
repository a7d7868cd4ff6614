// Helpers for passes: the operators that use a variable, and changes of the list of operators.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::graph {

// The operators that write one variable, and the operators that read it: indices, ascending. An
// operator that reads the variable twice is listed once.
struct Uses {
  std::vector<size_t> writers, readers;
};

using UseMap = std::unordered_map<std::string, Uses>;

UseMap FindUses(const Program& program);

// Returns true if a pass may remove the variable: it is a temporary, not the loss and not a metric.
bool MayVanish(const Program& program, const std::string& var);

// Returns true if exactly one operator writes `var`, only operator `reader` reads it, and
// MayVanish(program, var) is true.
bool ReadOnlyBy(const Program& program, const UseMap& uses, const std::string& var, size_t reader);

// Inserts `op` before operator `at`. First checks `op` in the same way as AppendOp.
Status InsertOp(Program& program, size_t at, ops::Op op);
// Replaces operator `at` with `op`, which gets the role and source position of the old operator.
Status ReplaceOp(Program& program, size_t at, ops::Op op);
// Removes each operator i for which marks[i] is true.
void RemoveOps(Program& program, const std::vector<bool>& marks);

// The number of steps between two events: the value of the variable `var` (f32 [1]), or `n` if
// `var` is empty.
struct Period {
  int64_t n = 1;
  std::string var = "";
};
// Inserts before operator `at` the operators that compute a condition (Op::run_if). The condition
// holds at every n-th step and at each of the first `first` steps. Returns the variable of the
// condition. `saved`: checkpoints contain the step count.
StatusOr<std::string> InsertEveryNth(Program& program, size_t at, const std::string& prefix,
                                     const Period& period, int64_t first, bool saved);

// Returns the index after the last operator that writes one of `vars`; 0: there is no such
// operator.
size_t BehindWritersOf(const Program& program, const std::vector<std::string>& vars);

// Returns the index of the operator that begins backward: the fill_constant that sets the gradient
// of the loss. INTERNAL: the program has no such operator.
StatusOr<size_t> FindLossGradient(const Program& program);

// Inserts an operator that multiplies the gradient of the loss by the variable `factor` (f32 [1]),
// directly after this gradient is set.
Status MultiplyLossGradient(Program& program, const std::string& factor);

// Returns true if the order of operators `a` and `b` matters: one of them writes a variable that
// the other reads or writes.
bool Conflict(const ops::Op& a, const ops::Op& b);

// Returns true if operator `from` may move next to operator `to`: no operator between the two reads
// or writes an output of `from`, or writes an input of `from`.
bool CanMove(const Program& program, size_t from, size_t to);

}  // namespace tandem::graph
