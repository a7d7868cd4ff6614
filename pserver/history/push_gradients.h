// Reads the gradients in a logged push.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "pserver/state/wal.h"

namespace tandem::pserver {

// Returns the ids of the rows of a table in a push, ascending; empty: the push has none.
std::span<const uint64_t> RowsIn(const PushRecord& push, const std::string& table);
// Returns the Euclidean norm of the gradient of a row; nullopt: the push does not have the row.
// `dim`: number of values of a row. A push may have counts before them, such as shows and clicks.
std::optional<double> RowGradientNorm(const PushRecord& push, const std::string& table, uint64_t id,
                                      int64_t dim);
// Returns the Euclidean norm of the gradients of a dense variable in a push to one server; nullopt:
// the push has none.
std::optional<double> VariableGradientNorm(const PushRecord& push, const std::string& variable);

}  // namespace tandem::pserver
