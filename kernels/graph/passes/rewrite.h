// What passes share: who uses a variable, and changes of the list of operators.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

// Operators that touch one variable, by index, in order; an operator that reads it twice is there
// once.
struct Uses {
  std::vector<size_t> writers, readers;
};

using UseMap = std::unordered_map<std::string, Uses>;

UseMap FindUses(const Program& program);

// True when the variable may vanish: a temporary that is neither loss nor metric.
bool MayVanish(const Program& program, const std::string& var);

// True when operator `reader` alone reads `var`, one operator writes it, and nobody else sees it.
bool ReadOnlyBy(const Program& program, const UseMap& uses, const std::string& var, size_t reader);

// Checks `op` as AppendOp does and puts it before operator `at`.
Status InsertOp(Program& program, size_t at, Op op);
// Operator `at` becomes `op`, with its role and source.
Status ReplaceOp(Program& program, size_t at, Op op);
// Takes out the operators whose mark is set.
void RemoveOps(Program& program, const std::vector<bool>& marks);

// Steps from one to the next: `n`, or what the variable `var` (f32 [1]) says where there is one.
struct Period {
  int64_t n = 1;
  std::string var = "";
};
// Puts before operator `at` what makes a condition (Op::run_if) of every n-th step, and of each of
// the first `first` steps; returns its variable. `saved`: checkpoints count on.
StatusOr<std::string> InsertEveryNth(Program& program, size_t at, const std::string& prefix,
                                     const Period& period, int64_t first, bool saved);

// Index behind the last operator that writes one of `vars`; 0 when none does.
size_t BehindWritersOf(const Program& program, const std::vector<std::string>& vars);

// Index of the operator that begins backward: a fill_constant that says what the gradient of the
// loss is. INTERNAL when there is none.
StatusOr<size_t> FindLossGradient(const Program& program);

// Multiplies the gradient of the loss by the variable `factor` (f32 [1]): one operator more, behind
// that one.
Status MultiplyLossGradient(Program& program, const std::string& factor);

// True when the order of the two operators matters: one writes what the other reads or writes.
bool Conflict(const Op& a, const Op& b);

// True when nothing in (from, to) or (to, from) keeps operator `from` from running beside operator
// `to`: no one between reads or writes what it writes, or writes what it reads.
bool CanMove(const Program& program, size_t from, size_t to);

}  // namespace tandem
